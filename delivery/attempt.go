package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"example.com/awsretry"
)

// Attempt makes one attempt of a delivery, and returns its record. number is
// the attempt's number in the delivery, from 1. It is for a job queue, which
// stores the request between the attempts.
//
// Attempt classifies, times out, throttles and observes the attempt as
// RoundTrip does, and sets the policy's content type. If the policy allows
// another attempt, the record's Stop is "" and its Delay is the delay before
// that attempt, with jitter. Otherwise Stop is why no attempt follows, as in
// DeadLetter.Reason. Attempt does not wait for Delay, and does not call
// Transport.DeadLetter.
//
// Exactly one of Response and Err is set. The caller closes the response's
// body. Attempt closes the request's body. It does not recover a panic in Base
// or in a hook.
//
// In Base, awsretry.AttemptNumber returns 1 for every attempt.
func (t *Transport) Attempt(req *http.Request, number int) awsretry.Attempt {
	if number < 1 {
		return notMade(req, number, fmt.Errorf("delivery: Attempt: number is %d; it must be 1 or more", number))
	}
	inner, err := t.start()
	if err != nil {
		return notMade(req, number, err)
	}
	if err := followsRedirect(req); err != nil {
		return notMade(req, number, err)
	}
	p := progress{number: number}
	ctx := context.WithValue(req.Context(), progressKey{t}, &p)
	resp, err := inner.RoundTrip(req.WithContext(awsretry.WithMaxAttempts(ctx, 1)))

	record := p.record
	if record.Number == 0 { // no attempt was made
		record = stopped(req, number, err)
	}
	record.Request, record.Response = req, resp
	switch {
	case err == nil:
		record.Err = nil
	case record.Err == nil:
		record.Err = err
	}
	return record
}

// notMade closes the request's body, and returns the record of an attempt that
// was not made.
func notMade(req *http.Request, number int, err error) awsretry.Attempt {
	if req.Body != nil {
		req.Body.Close()
	}
	record := stopped(req, number, err)
	record.Err = err
	return record
}

// stopped returns the record of a delivery that stopped before an attempt.
func stopped(req *http.Request, number int, err error) awsretry.Attempt {
	record := awsretry.Attempt{
		Request: req, Number: number, Err: err, Class: awsretry.Permanent, Stop: awsretry.StopPermanent,
	}
	if gaveUp := (*awsretry.Error)(nil); errors.As(err, &gaveUp) {
		record.Err, record.Stop = gaveUp.Err, gaveUp.Stop
	}
	return record
}

// inDelivery returns the record of a single attempt with its number in the
// delivery, and with the delay before the next attempt.
func (t *Transport) inDelivery(record awsretry.Attempt, number int) awsretry.Attempt {
	s := Effective(nil, t.Policy).schedule()
	record.Number, record.MaxAttempts = number, s.retries()+1
	if record.Stop == awsretry.StopMaxAttempts && number <= s.retries() {
		record.Stop, record.Delay = "", t.delay(&s, number-1)
	}
	return record
}

// delay returns the delay before retry n, from 0, with jitter.
func (t *Transport) delay(s *schedule, n int) time.Duration {
	if t.Jitter == nil {
		return s.jittered(n, rand.Float64())
	}
	delay := s.delay(n)
	if delay == 0 {
		return 0
	}
	return min(max(t.Jitter(delay), 0), delay)
}
