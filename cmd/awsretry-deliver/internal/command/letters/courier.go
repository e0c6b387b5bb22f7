package letters

import (
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/redact"
)

// A courier sends the letters of a redrive, one after another, and records the
// outcome of each.
type courier struct {
	rt     http.RoundTripper
	stop   *gentleStop
	report *report
	sent   *sending // of the last letter; nil: it was not sent
}

// A sending is the outcome of sending a letter.
type sending struct {
	last    awsretry.Attempt
	stop    awsretry.Stop
	err     string // "": there was a response
	elapsed time.Duration
}

// RoundTrip implements http.RoundTripper.
func (c *courier) RoundTrip(req *http.Request) (*http.Response, error) {
	letter := req.Context()
	ctx, cancel := c.stop.context(letter)
	s := &sending{}
	c.sent = s
	observed := awsretry.WithObserver(ctx, func(a awsretry.Attempt) {
		s.last = a
		c.stop.attempted(a)
		c.report.attempt(a)
	})
	start := time.Now()
	resp, err := c.rt.RoundTrip(req.WithContext(observed))
	s.elapsed, s.stop = time.Since(start), s.last.Stop
	if err != nil {
		cancel(nil)
		why := err
		if gaveUp := (*awsretry.Error)(nil); errors.As(err, &gaveUp) {
			s.stop, why = gaveUp.Stop, gaveUp.Err
		}
		s.err = redact.Error(why)
		return nil, err
	}
	context.AfterFunc(letter, func() { cancel(nil) }) // the Redriver ends it when it has read the response
	return resp, nil
}
