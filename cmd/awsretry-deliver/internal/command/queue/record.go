package queue

import (
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/internal/redact"
)

// A record is an attempt as JSON.
type record struct {
	Start          time.Time `json:"start"`
	IdempotencyKey string    `json:"idempotency_key"`
	Method         string    `json:"method"`
	URL            string    `json:"url"`
	Attempt        int       `json:"attempt"`
	Status         int       `json:"status,omitempty"`
	Code           string    `json:"code,omitempty"`
	Error          string    `json:"error,omitempty"`
	Class          string    `json:"class"`
	ElapsedMS      float64   `json:"elapsed_ms"`
	DelayMS        *float64  `json:"delay_ms,omitempty"`
	Stop           string    `json:"stop,omitempty"`
}

func newRecord(a awsretry.Attempt) record {
	r := record{
		Start:          a.Start.UTC(),
		IdempotencyKey: a.Request.Header.Get("Idempotency-Key"),
		Method:         a.Request.Method,
		URL:            term.URL(a.Request.URL),
		Attempt:        a.Number,
		Code:           a.Code,
		Class:          a.Class.String(),
		ElapsedMS:      attempts.Milliseconds(a.Elapsed),
		Stop:           string(a.Stop),
	}
	if a.Response != nil {
		r.Status = a.Response.StatusCode
	} else {
		r.Error = redact.Error(a.Err)
	}
	if a.Stop == "" {
		delay := attempts.Milliseconds(a.Delay)
		r.DelayMS = &delay
	}
	return r
}
