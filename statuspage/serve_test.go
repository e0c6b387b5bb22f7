package statuspage

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// get requests the page.
func get(t testing.TB, page http.Handler, url string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest("GET", url, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, req)
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w
}

func TestMethods(t *testing.T) {
	page := New(&awsretry.Transport{})
	for method, want := range map[string]int{
		"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "OPTIONS": 405, "TRACE": 405,
	} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		h := w.Header()
		if w.Code != want || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
			t.Errorf("%s: %d, %v", method, w.Code, h)
		}
		if allow := h.Get("Allow"); want == 405 && allow != "GET, HEAD" {
			t.Errorf("%s: Allow is %q", method, allow)
		}
		if method == "HEAD" && (w.Body.Len() > 0 || h.Get("Content-Length") == "0") {
			t.Errorf("HEAD: %d bytes, Content-Length %s", w.Body.Len(), h.Get("Content-Length"))
		}
	}
}

func TestFormats(t *testing.T) {
	page := New()
	const (
		asHTML = "text/html; charset=utf-8"
		asJSON = "application/json"
	)
	for url, want := range map[string]string{
		"/":                              asHTML,
		"/?format=json":                  asJSON,
		"/?format=html":                  asHTML,
		"/?format=xml":                   "",
		"/?format=%1b%5b31m%3Cscript%3E": "",
	} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
		got := w.Header().Get("Content-Type")
		if want == "" {
			if w.Code != 400 || got != "text/plain; charset=utf-8" || strings.Contains(w.Body.String(), "\x1b") ||
				!strings.Contains(w.Body.String(), "it must be html or json") {
				t.Errorf("%s: %d, %s, %q", url, w.Code, got, w.Body)
			}
		} else if got != want {
			t.Errorf("%s is %s, want %s", url, got, want)
		}
	}
}

func TestRefresh(t *testing.T) {
	const meta = `<meta http-equiv="refresh" content="5">`
	for url, want := range map[string]bool{"/": true, "/?refresh=on": true, "/?refresh=off": false} {
		if got := strings.Contains(get(t, New(), url).Body.String(), meta); got != want {
			t.Errorf("%s refreshes: %v", url, got)
		}
	}
}

// The page says what the JSON says, and neither has a secret.
func TestScene(t *testing.T) {
	scene(t, func(page *Page) {
		text := get(t, page, "/").Body.String()
		var got report
		if err := json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(newReport(page, time.Now()), &got); diff != "" {
			t.Error(diff)
		}
		if len(got.Transports) != 2 || len(got.Transports[0].Partitions) != 4 || len(got.Others) != 0 {
			t.Fatalf("%+v", got)
		}
		payments, dynamodb := got.Transports[0].Partitions[2], got.Transports[1].Partitions[0]
		last, m := payments.LastFailure, payments.Minute
		if last == nil || last.Class != "transient" || last.Error != "dial tcp 10.0.0.7:443: connect: connection refused" || last.Stop != "quota" {
			t.Errorf("%+v", last)
		}
		if *payments.State.Tokens != 0 || *payments.State.Capacity != 100 || m.Refusals["quota"] < 20 || m.Refused != m.Refusals["quota"]+m.Refusals["max_attempts"] {
			t.Errorf("%+v, %+v", payments.State, m)
		}
		if maps := got.Transports[0].Partitions[1]; maps.State.RetryAfter < 15 || maps.State.Waiting != 1 {
			t.Errorf("%+v", maps.State)
		}
		if s := dynamodb.State; len(s.Limits) != 1 || s.Limits[0].Name != "tokens" || s.MeasuredRate == nil || s.SendRate == nil {
			t.Errorf("%+v", s)
		}
		for _, want := range []string{
			"payments.example", "0 of 100", "refusals " + fmt.Sprint(m.Refused) + ": quota ", "connection refused",
			"Retry-After for ", "1 waiting", "ThrottlingException", "of 1000 left", ", measured ", "IdempotentOnly",
			fmt.Sprintf("%d of %d attempts failed", m.Failed, m.Attempts), "stopped by <bdi>quota</bdi>",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not have %q", want)
			}
		}
		for _, secret := range []string{"SECRET", "Bearer", "/v1/items"} {
			if strings.Contains(text, secret) {
				t.Errorf("the page has %q", secret)
			}
		}
	})
}

// Whatever a server, a name or an error contains: no markup, no control
// character, no query and no password.
func TestHostileTexts(t *testing.T) {
	const evil = "<script>alert(1)</script><img src=x onerror=y>\"'\x1b[31m\x00\u009b\x7f\xff\u2028\r\n\t{{.}}"
	tr := &awsretry.Transport{
		Mode: awsretry.Adaptive, MaxAttempts: 1,
		RateLimit: awsretry.RateLimitConfig{Limits: func(*http.Response) []awsretry.Limit {
			return []awsretry.Limit{
				{Name: evil, Quota: 10, Remaining: 5, Reset: time.Minute},
				{Name: strings.Repeat("long", 60), Quota: math.Inf(1), Remaining: math.NaN(), Reset: math.MaxInt64},
			}
		}},
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, 400, io.NopCloser(strings.NewReader(`{"__type":"`+evil[:30]+`"}`)),
				"X-Amzn-ErrorType", evil), nil
		}),
		Partition: func(req *http.Request) string { return req.URL.String() + evil },
	}
	page := New(tr)
	tr.Observe = page.Observe
	url := "http://user:PASSWORD@service.example/path?token=SECRET"
	if resp, err := (&http.Client{Transport: tr}).Get(url); err != nil {
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	failed := fmt.Errorf("Get %q: malformed HTTP response %q: %s", url, evil, evil)
	for _, partition := range []string{"/path?token=SECRET", evil, "", url, strings.Repeat(url, 100)} {
		page.Observe(awsretry.Attempt{Number: 1, Class: awsretry.Transient, Err: failed, Code: evil, Stop: evil, Partition: partition})
	}
	page.Observe(awsretry.Attempt{
		Number: 1, Class: awsretry.Transient, Partition: "long error",
		// What is kept of it ends in the user, and is short without the first query.
		Err: errors.New(`Get "http://service.example/?q=` + strings.Repeat("x", maxError-47) + `": http://SECRET@service.example/`),
	})
	text := get(t, page, "/").Body.String()
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, tag := range tags.FindAllString(text, -1) {
		if regexp.MustCompile(`(?i)^<(script|img)|[\s"']on\w+\s*=|\sstyle=`).MatchString(tag) {
			t.Errorf("the page has %s", tag)
		}
	}
	var decoded any
	if err := json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &decoded); err != nil {
		t.Fatal(err)
	}
	shown := append(texts(decoded), strings.ReplaceAll(html.UnescapeString(tags.ReplaceAllString(text, "")), "\n", ""))
	for _, s := range shown {
		if i := strings.IndexFunc(strings.ReplaceAll(s, "\t", ""), unicode.IsControl); i >= 0 {
			t.Errorf("a control character at %d of %q", i, s)
		}
		for _, secret := range []string{"SECRET", "PASSWORD", "user:12"} {
			if strings.Contains(s, secret) {
				t.Errorf("%s in %.500q", secret, s)
			}
		}
	}
	if !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Error("the texts are not shown")
	}
}

// JSON has no infinite numbers.
func TestInfiniteNumbers(t *testing.T) {
	inf := math.Inf(1)
	state := newState(&awsretry.Transport{Mode: awsretry.Adaptive}, awsretry.State{
		Limited: true, SendRate: inf, MeasuredRate: math.NaN(), Limits: []awsretry.Limit{{Quota: inf, Remaining: inf, Reset: -1}},
	})
	if text, err := json.Marshal(state); err != nil || state.SendRate != nil || state.Limits[0].Quota != nil || state.Limits[0].Reset != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// texts returns the strings in a decoded JSON value.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	case map[string]any:
		for name, e := range v {
			all = append(append(all, name), texts(e)...)
		}
	}
	return all
}

// Pages without anything to show, and Transports that cannot be used.
func TestSensible(t *testing.T) {
	used := &awsretry.Transport{Base: httpfake.Statuses(200), Quota: awsretry.QuotaConfig{Capacity: -1}}
	if _, err := used.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)); err != nil {
		t.Fatal(err)
	}
	another := New(new(awsretry.Transport))
	another.Observe(awsretry.Attempt{Stop: awsretry.StopQuota, Class: awsretry.Transient, Partition: "a"})
	observed := new(Page)
	observed.Observe(awsretry.Attempt{Number: 1, Partition: "of another"})
	for name, tt := range map[string]struct {
		page *Page
		want []string
	}{
		"zero":       {new(Page), []string{"No Transport, and no attempts yet."}},
		"nil":        {New(nil), []string{"No Transport, and no attempts yet."}},
		"unused":     {New(&awsretry.Transport{}), []string{"standard mode", "No requests yet."}},
		"only used":  {New(used), []string{"service.example", "no quota", "first attempts 0", "No failure observed."}},
		"not a mode": {New(&awsretry.Transport{Mode: "fast", MaxAttempts: -1}), []string{"Not valid, sends nothing", "MaxAttempts is -1", "fast mode"}},
		"legacy":     {New(&awsretry.Transport{Mode: awsretry.Legacy, MaxAttempts: 6}), []string{"legacy mode", "<dt>MaxAttempts</dt><dd>6</dd>", "All other fields"}},
		"another's":  {another, []string{"In trouble", `<bdi class="of">other partition</bdi>`, "No requests yet."}},
		"observed":   {observed, []string{"Partitions", "of another", "first attempts 1"}},
	} {
		w := get(t, tt.page, "/")
		for _, want := range tt.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: the page does not have %q:\n%s", name, want, w.Body)
			}
		}
		if !json.Valid(get(t, tt.page, "/?format=json").Body.Bytes()) {
			t.Errorf("%s: no JSON", name)
		}
	}
}

// Partitions in trouble come first over all Transports, each with the name of its
// Transport, and those first of which everything fails, whatever the class.
func TestTroubleIsFirst(t *testing.T) {
	page := new(Page)
	for i, name := range []string{"orders", "", "stock"} {
		tr := &awsretry.Transport{MaxAttempts: 1, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			status := 200
			fmt.Sscanf(req.URL.Host, "s%d.example", &status)
			return httpfake.Response(req, status, http.NoBody), nil
		}), Observe: page.Observe}
		page.Add(name, tr)
		hosts := [][]string{{"calm.example", "calm2.example"}, {"s404.example"}, {"s503.example", "quiet.example"}}[i]
		for _, host := range hosts {
			req := httptest.NewRequest("GET", "http://"+host, nil)
			if resp, err := tr.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
		}
	}
	page.Observe(awsretry.Attempt{Number: 1, Partition: "quiet.example"})
	page.Observe(awsretry.Attempt{Stop: awsretry.StopRateLimit, Class: awsretry.Throttled, Partition: "quiet.example"})
	var got []string
	for _, m := range regexp.MustCompile(`<h2>.*?</h2>|<article.*?>\n<h3>.*</h3>|<p class="none">.*</p>|not retryable|stopped by.*</p>`).
		FindAllString(get(t, page, "/").Body.String(), 8) {
		got = append(got, regexp.MustCompile(`</?(h[23]|p|bdi|span).*?>|[<>\n]`).ReplaceAllString(m, ""))
	}
	want := []string{
		"In trouble", `article class="failing"s404.example Transport 2 all attempts fail`, "not retryable",
		`article class="failing"s503.example stock all attempts fail`, "stopped by max_attempts",
		`article class="troubled"quiet.example stock`, "stopped by rate_limit",
		"orders, standard mode",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A page of many partitions shows those that are in trouble, and the JSON all.
func TestManyPartitions(t *testing.T) {
	page := new(Page)
	for n := range 300 {
		page.Observe(awsretry.Attempt{Number: 1, Partition: fmt.Sprintf("p%03d", n)})
	}
	page.Observe(awsretry.Attempt{Number: 1, Class: awsretry.Transient, Stop: awsretry.StopQuota, Partition: "p299"})
	text := get(t, page, "/").Body.String()
	if n := strings.Count(text, "<article"); n != shownAtOnce || !strings.Contains(text, "200 more partitions: see the JSON") {
		t.Errorf("%d partitions on the page", n)
	}
	if first, _, _ := strings.Cut(text, "p000"); !strings.Contains(first, "p299") {
		t.Error("the partition in trouble is not the first")
	}
	if n := strings.Count(get(t, page, "/?format=json").Body.String(), `"last_failure"`); n != 300 {
		t.Errorf("%d partitions in the JSON", n)
	}
}

// The chart stays in its box, whatever is in a minute.
func TestChart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempts := range 4 {
			for _, refusals := range []int{0, 1, 5000} {
				page := new(Page)
				for range attempts {
					page.Observe(awsretry.Attempt{Number: 1 + attempts%2})
				}
				for range refusals {
					page.Observe(awsretry.Attempt{Stop: awsretry.StopRateLimit, Class: awsretry.Throttled})
				}
				if attempts+refusals == 0 {
					continue
				}
				c := newReport(page, time.Now()).Others[0].Minute.Chart()
				if len(c.Bars) == 0 {
					t.Errorf("%d attempts, %d refusals: no bars", attempts, refusals)
				}
				for _, b := range c.Bars {
					if b.X != 590 || b.Y < -least || b.Y+b.Height > high+least || b.Height < least {
						t.Errorf("%d attempts, %d refusals: %+v", attempts, refusals, b)
					}
				}
			}
		}
	})
}
