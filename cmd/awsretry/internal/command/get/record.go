package get

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/internal/redact"
)

// A record is an attempt as JSON.
type record struct {
	Attempt    int       `json:"attempt"`
	Offset     int64     `json:"offset_bytes,omitempty"` // of the rest of a body that broke off
	Start      time.Time `json:"start,omitzero"`
	Method     string    `json:"method"`
	URL        string    `json:"url"`
	Status     int       `json:"status,omitempty"`
	Error      string    `json:"error,omitempty"`
	Code       string    `json:"code,omitempty"`
	Class      string    `json:"class"`
	Location   string    `json:"location,omitempty"` // of a redirect
	RequestID  string    `json:"request_id,omitempty"`
	RetryAfter string    `json:"retry_after,omitempty"`
	ElapsedMS  float64   `json:"elapsed_ms"`
	WaitedMS   float64   `json:"waited_ms,omitempty"`
	Tokens     *int      `json:"tokens,omitempty"`
	SendRate   *float64  `json:"send_rate_per_second,omitempty"`
	DelayMS    *float64  `json:"delay_ms,omitempty"`
	Stop       string    `json:"stop,omitempty"`
}

func newRecord(a awsretry.Attempt, u *url.URL, state awsretry.State) record {
	r := record{
		Attempt:   a.Number,
		Offset:    a.Offset,
		Start:     a.Start.UTC(),
		Method:    a.Request.Method,
		URL:       term.URL(u),
		Code:      a.Code,
		Class:     a.Class.String(),
		ElapsedMS: attempts.Milliseconds(a.Elapsed),
		WaitedMS:  attempts.Milliseconds(a.Waited),
		Stop:      string(a.Stop),
	}
	if a.Response != nil {
		r.Status, r.RequestID = a.Response.StatusCode, requestID(a.Response)
		r.RetryAfter = a.Response.Header.Get("Retry-After")
		r.Location = attempts.Location(a.Response)
	} else {
		r.Error = redact.Error(a.Err)
	}
	if state.Tokens != math.MaxInt {
		r.Tokens = &state.Tokens
	}
	if state.Limited {
		r.SendRate = &state.SendRate
	}
	if delay := attempts.Milliseconds(a.Delay); a.Stop == "" || a.Delay > 0 {
		r.DelayMS = &delay
	}
	return r
}

// requestID returns the service's name for the request, which its operators ask
// for.
func requestID(resp *http.Response) string {
	for _, name := range []string{"X-Amzn-Requestid", "X-Amz-Request-Id", "X-Request-Id"} {
		if id := resp.Header.Get(name); id != "" {
			return term.OneLine(id)
		}
	}
	return ""
}
