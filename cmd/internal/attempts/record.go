package attempts

import (
	"math"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/internal/redact"
)

// A Record is an attempt as JSON. docs/SCRIPTS.md describes it.
type Record struct {
	Attempt        int       `json:"attempt"`
	Offset         int64     `json:"offset_bytes,omitempty"` // of the rest of a body that broke off
	Start          time.Time `json:"start,omitzero"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	Method         string    `json:"method"`
	URL            string    `json:"url"`
	Status         int       `json:"status,omitempty"`
	Location       string    `json:"location,omitempty"` // of a redirect
	Error          string    `json:"error,omitempty"`
	Code           string    `json:"code,omitempty"`
	Class          string    `json:"class"`
	RequestID      string    `json:"request_id,omitempty"`
	RetryAfter     string    `json:"retry_after,omitempty"`
	ElapsedMS      float64   `json:"elapsed_ms"`
	WaitedMS       float64   `json:"waited_ms,omitempty"`
	Tokens         *int      `json:"tokens,omitempty"`
	SendRate       *float64  `json:"send_rate_per_second,omitempty"`
	DelayMS        *float64  `json:"delay_ms,omitempty"`
	Stop           string    `json:"stop,omitempty"`
}

// NewRecord returns the record of an attempt.
func NewRecord(a awsretry.Attempt) Record {
	r := Record{
		Attempt:        a.Number,
		Offset:         a.Offset,
		Start:          a.Start.UTC(),
		IdempotencyKey: a.Request.Header.Get("Idempotency-Key"),
		Method:         a.Request.Method,
		URL:            term.URL(a.Request.URL),
		Code:           a.Code,
		Class:          a.Class.String(),
		ElapsedMS:      Milliseconds(a.Elapsed),
		WaitedMS:       Milliseconds(a.Waited),
		Stop:           string(a.Stop),
	}
	if a.Response != nil {
		r.Status, r.RequestID = a.Response.StatusCode, RequestID(a.Response)
		r.RetryAfter, r.Location = a.Response.Header.Get("Retry-After"), Location(a.Response)
	} else {
		r.Error = redact.Error(a.Err)
	}
	if delay := Milliseconds(a.Delay); a.Stop == "" || a.Delay > 0 {
		r.DelayMS = &delay
	}
	return r
}

// WithState returns the record with the state of the attempt's partition.
func (r Record) WithState(state awsretry.State) Record {
	if state.Tokens != math.MaxInt {
		r.Tokens = &state.Tokens
	}
	if state.Limited {
		r.SendRate = &state.SendRate
	}
	return r
}

// RequestID returns the service's name for the request, which its operators ask
// for, or "".
func RequestID(resp *http.Response) string {
	for _, name := range []string{"X-Amzn-Requestid", "X-Amz-Request-Id", "X-Request-Id"} {
		if id := resp.Header.Get(name); id != "" {
			return term.OneLine(id)
		}
	}
	return ""
}
