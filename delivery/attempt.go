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
// how many attempts the delivery has then had, this one included. It is for a
// job queue, which keeps the request between the attempts.
//
// The attempt is made as RoundTrip makes it: it is classified, timed out,
// throttled and observed in the same way, with the policy's content type. If
// the policy has another attempt follow, Stop is "", and Delay is how long to
// wait before it, jitter included. Otherwise Stop says why none follows, as
// DeadLetter.Reason does. Attempt does not wait, and does not call
// Transport.DeadLetter.
//
// Exactly one of Response and Err is set. The caller closes the response's
// body. Attempt closes the request's. A panic in Base or in a hook goes on.
//
// To Base each attempt looks like the first: awsretry.AttemptNumber returns 1.
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
	if record.Number == 0 { // nothing was sent
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

// notMade returns the record of an attempt that was not made, and closes the
// request's body.
func notMade(req *http.Request, number int, err error) awsretry.Attempt {
	if req.Body != nil {
		req.Body.Close()
	}
	record := stopped(req, number, err)
	record.Err = err
	return record
}

// stopped returns the record of an attempt before which the delivery stopped.
func stopped(req *http.Request, number int, err error) awsretry.Attempt {
	record := awsretry.Attempt{
		Request: req, Number: number, Err: err, Class: awsretry.Permanent, Stop: awsretry.StopPermanent,
	}
	if gaveUp := (*awsretry.Error)(nil); errors.As(err, &gaveUp) {
		record.Err, record.Stop = gaveUp.Err, gaveUp.Stop
	}
	return record
}

// inDelivery returns the record of a single attempt as one of a delivery's:
// with its number there, and with the next attempt.
func (t *Transport) inDelivery(record awsretry.Attempt, number int) awsretry.Attempt {
	record.Number = number
	if record.Stop != awsretry.StopMaxAttempts {
		return record
	}
	if s := Effective(nil, t.Policy).schedule(); number <= s.retries() {
		record.Stop, record.Delay = "", t.delay(&s, number-1)
	}
	return record
}

// delay returns the delay before retry n, from 0, with its jitter.
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
