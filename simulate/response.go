package simulate

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A refusal is what distinguishes the responses of a throttle.
type refusal struct {
	header http.Header
	body   string
}

// plain responses have neither header nor body.
var plain = refusal{header: http.Header{}}

// newRefusal returns what the throttle sends in a run that starts at start.
func newRefusal(t *scenario.Throttle, start time.Time) refusal {
	r := refusal{header: http.Header{}}
	if t.RetryAfter > 0 {
		r.header.Set("Retry-After", strconv.Itoa(int(time.Duration(t.RetryAfter)/time.Second)))
	}
	if t.RetryAt > 0 {
		const roundUp = time.Second - 1
		at := start.Add(time.Duration(t.RetryAt) + roundUp).Truncate(time.Second)
		r.header.Set("Retry-After", at.UTC().Format(http.TimeFormat))
	}
	if t.Code != "" {
		// Strings always encode.
		text, _ := json.Marshal(map[string]string{"__type": t.Code, "message": "Rate exceeded"})
		r.header.Set("Content-Type", "application/x-amz-json-1.0")
		r.body = string(text)
	}
	return r
}

// statusLines are the statuses of the service's responses, as net/http writes
// them.
var statusLines = map[int]string{
	200: "200 OK", 206: "206 Partial Content", 429: "429 Too Many Requests", 500: "500 Internal Server Error",
	503: "503 Service Unavailable",
}

func (r refusal) response(status int, req *http.Request) *http.Response {
	resp := &http.Response{
		Status: statusLines[status], StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: http.NoBody, Request: req,
	}
	if r.body != "" {
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(r.body)), int64(len(r.body))
	}
	return resp
}
