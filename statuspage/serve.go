package statuspage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"
)

// refresh is how often the page loads itself again.
const refresh = 5 * time.Second

// shownAtOnce limits the partitions on the page. JSON has all of them.
const shownAtOnce = 100

//go:embed page.css
var style string

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// policy allows the page nothing but its style: no script, no picture, no
// request, no frame.
var policy = func() string {
	hash := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// ServeHTTP implements http.Handler for GET and HEAD. It responds with JSON if
// the query has format=json. With refresh=off the page does not refresh itself.
func (p *Page) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the method must be GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	query := req.URL.Query()
	var (
		body bytes.Buffer
		err  error
	)
	report := newReport(p, time.Now())
	switch format := query.Get("format"); format {
	case "json":
		h.Set("Content-Type", "application/json")
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	case "", "html":
		h.Set("Content-Type", "text/html; charset=utf-8")
		err = pageTemplate.Execute(&body, newView(report, query.Get("refresh") != "off"))
	default:
		http.Error(w, fmt.Sprintf("format is %.50q; it must be html or json", format), http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	if req.Method == http.MethodGet {
		_, _ = body.WriteTo(w) // fails if the client has gone
	}
}
