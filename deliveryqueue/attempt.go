package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue/internal/ownfault"
)

// transports has a Transport for each policy. A Transport keeps track of
// connections on which an attempt timed out, so that the next attempt does not use
// them.
type transports struct {
	mu       sync.Mutex
	byPolicy map[string]*delivery.Transport
}

// maxTransports limits how many policies are stored. When there would be more, all
// are forgotten.
const maxTransports = 1024

func (q *Queue) transport(stored unread) *delivery.Transport {
	q.transports.mu.Lock()
	defer q.transports.mu.Unlock()
	if t := q.transports.byPolicy[stored.policyText]; t != nil {
		return t
	}
	if len(q.transports.byPolicy) >= maxTransports || q.transports.byPolicy == nil {
		q.transports.byPolicy = make(map[string]*delivery.Transport)
	}
	policy := *stored.policy
	policy.ThrottlePolicy = nil // the store has the throttle
	t := &delivery.Transport{
		Policy: &policy, Base: guarded(q.config.Base), AttemptTimeout: q.config.AttemptTimeout,
		RetryStatus: q.config.RetryStatus,
	}
	if t.RetryStatus == nil {
		t.RetryStatus = func(status int) bool {
			return status == http.StatusTooManyRequests || status/100 == 5 || refusal(status)
		}
	}
	if observe := q.config.Observe; observe != nil {
		t.Observe = func(a awsretry.Attempt) { q.hook(a.Request.Context(), "Observe", func() { observe(a) }) }
	}
	q.transports.byPolicy[stored.policyText] = t
	return t
}

// closeIdleConnections closes those of Base, and of the copies of it that a Transport
// makes after a timeout.
func (t *transports) closeIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range t.byPolicy {
		each.CloseIdleConnections()
	}
}

// refusal reports whether a status, such as during a deployment, is retried for
// refusedFor.
func refusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound
}

const refusedFor = time.Hour

// A guardedBase is a Base whose panics, and whose requests that cannot be signed,
// are retried.
type guardedBase struct{ http.RoundTripper }

// guarded returns a Base that may panic as a guardedBase. The Transport of net/http
// does not panic.
func guarded(base http.RoundTripper) http.RoundTripper {
	switch base.(type) {
	case nil, *http.Transport:
		return base
	}
	return guardedBase{base}
}

// RoundTrip implements http.RoundTripper.
func (b guardedBase) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if value := recover(); value != nil {
			resp, err = nil, &ownfault.Error{Err: fmt.Errorf("%w: %v", errPanicked, value)}
			if req.Body != nil {
				req.Body.Close()
			}
		}
	}()
	resp, err = b.RoundTripper.RoundTrip(req)
	if ownfault.Is(err) {
		err = &ownfault.Error{Err: errors.New(err.Error())} // drops the type that makes it permanent
	}
	return resp, err
}

// CloseIdleConnections calls the method of this name of the Base, if it has one.
func (b guardedBase) CloseIdleConnections() {
	if base, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// idKey is the key of a delivery's ID in the contexts of its attempts.
type idKey struct{}

// ID returns the ID of the delivery whose attempt has the context ctx: that of
// the request that Base sends and Observe sees, and of Config.DeadLetter. It
// reports false for any other context.
func ID(ctx context.Context) (id int64, ok bool) {
	id, ok = ctx.Value(idKey{}).(int64)
	return id, ok
}

// attempt makes one attempt. A panic of a hook that it needs ends the delivery.
func (q *Queue) attempt(ctx context.Context, stored unread, number int) (a awsretry.Attempt) {
	req, err := stored.request(ctx)
	if err != nil {
		return awsretry.Attempt{Number: number, Err: err, Class: awsretry.Permanent, Stop: awsretry.StopBody}
	}
	defer func() {
		if value := recover(); value != nil {
			a = awsretry.Attempt{
				Request: req, Number: number, Err: &ownfault.Error{Err: fmt.Errorf("%w: %v", errPanicked, value)},
				Class: awsretry.Permanent, Stop: awsretry.StopPermanent,
			}
		}
	}()
	return q.transport(stored).Attempt(req, number)
}

// beginningSize is how many bytes of a response's body are kept.
const beginningSize = 512

// beginning reads the beginning of a response's body, which is kept with the
// delivery unless that is sealed. The attempt's timeout bounds it.
func (q *Queue) beginning(ctx context.Context, resp *http.Response) []byte {
	if resp == nil || q.config.Seal != nil || upgraded(resp) {
		return nil
	}
	begin, n := make([]byte, beginningSize), 0
	q.hook(ctx, "Base", func() { n, _ = io.ReadFull(resp.Body, begin) }) // bytes before an error are kept
	return begin[:n]
}

func upgraded(resp *http.Response) bool {
	_, ok := resp.Body.(io.Writer)
	return ok
}

// maxDrain limits how much of a response is read so that its connection can be
// reused.
const maxDrain = 64 << 10

// finish drains and closes the response. The attempt's timeout bounds it.
func finish(resp *http.Response) {
	if !upgraded(resp) {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrain))
	}
	resp.Body.Close()
}
