package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"example.com/awsretry"
	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/respbody"
)

// A delivery is one RoundTrip of a Transport that has a DeadLetter.
type delivery struct {
	*Transport
	req  *http.Request // the caller's
	body replay.Body   // of req
	progress

	bodyFree bool // Base does not use the request's body anymore
}

// A progress records a delivery's attempts.
type progress struct {
	attempts  int  // that were started
	delivered bool // an attempt got a 2xx, even if its body was cut off or a hook panicked

	// Of a single attempt:
	number int              // in its delivery; 0 if RoundTrip makes all attempts
	record awsretry.Attempt // set by observe
}

// A progressKey is the context key of a Transport's progress. It includes the
// Transport because Base may use the context for a request through another one.
type progressKey struct{ *Transport }

// progressOf returns the progress of the delivery that ctx belongs to.
func (t *Transport) progressOf(ctx context.Context) *progress {
	if p, ok := ctx.Value(progressKey{t}).(*progress); ok {
		return p
	}
	return &progress{} // RoundTrip without a DeadLetter
}

// run makes the delivery and, if it fails, calls DeadLetter.
func (d *delivery) run(inner *awsretry.Transport) (*http.Response, error) {
	d.bodyFree = true // remains so after a panic
	defer func() { d.body.Release(d.bodyFree) }()
	resp, err := d.send(inner, d.outgoing())
	d.bodyFree = resp == nil
	if d.delivered {
		return resp, err
	}
	return d.bury(resp, err)
}

// send makes the attempts. If Base or a hook panics, it calls DeadLetter, and
// does not recover the panic.
func (d *delivery) send(inner *awsretry.Transport, req *http.Request) (*http.Response, error) {
	returned := false
	defer func() {
		if !returned && !d.delivered {
			_, _ = d.bury(nil, errPanicked) // DeadLetter's error cannot be returned
		}
	}()
	resp, err := inner.RoundTrip(req)
	returned = true
	return resp, err
}

// errPanicked is the error of a delivery in which Base or a hook panicked.
var errPanicked = errors.New("delivery: it ended in a panic")

// bury calls DeadLetter, and returns the results for RoundTrip.
func (d *delivery) bury(resp *http.Response, err error) (*http.Response, error) {
	taken := false
	if resp != nil {
		defer func() {
			if !taken { // DeadLetter failed or panicked
				resp.Body.Close()
			}
		}()
		d.bodyFree = readAhead(resp)
	}
	dead := d.deadLetter(resp, err)
	d.giveBody(dead.Request)
	defer dead.Request.Body.Close()

	failure := d.DeadLetter(dead.Request.Context(), dead)
	switch {
	case failure == nil:
		taken = true
		return resp, err
	case err == nil:
		err = fmt.Errorf("delivery: got %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil, fmt.Errorf("%w; and the dead letter was not taken: %w", err, failure)
}

// deadLetter returns the dead letter, without its request's body.
func (d *delivery) deadLetter(resp *http.Response, err error) DeadLetter {
	dead := DeadLetter{
		Request:  d.req.Clone(context.WithoutCancel(d.req.Context())),
		Attempts: d.attempts,
		Err:      err,
		Reason:   string(awsretry.StopPermanent),
	}
	dead.Request.Trailer = d.req.Trailer // filled in while the body is read

	dead.Request.Cancel = nil
	var content *RequestPolicy
	if d.Policy != nil {
		content = d.Policy.RequestPolicy
	}
	setContentType(dead.Request, content)

	var gaveUp *awsretry.Error
	switch {
	case err == errPanicked:
		dead.Reason = "panic"
	case errors.As(err, &gaveUp):
		dead.Attempts, dead.Reason = gaveUp.Attempts, string(gaveUp.Stop)
	case resp != nil:
		if last, ok := awsretry.Outcome(resp); ok {
			dead.Attempts, dead.Reason = last.Number, string(last.Stop)
		}
		shown := *resp
		shown.Body = http.NoBody
		dead.Response = &shown
	}
	return dead
}

// maxReadAhead limits how much of the last response's body is read before
// DeadLetter is called, in bytes.
const maxReadAhead = 1 << 20

// readAhead buffers up to maxReadAhead bytes of resp's body in front of the
// rest, and reports whether that is all of it. If so, Base no longer needs the
// request's body, and the attempt's timeout cannot cut off the response.
func readAhead(resp *http.Response) (all bool) {
	if _, ok := resp.Body.(io.Writer); ok {
		return false // an upgraded connection
	}
	shown, ahead := respbody.Read(resp, maxReadAhead+1, nil, nil) // one more byte, to see the end
	ahead.WaitDone(context.Background())                          // the attempt's time-out bounds it
	resp.Body = shown.Body                                        // resp itself, for awsretry.Outcome
	return ahead.AtEnd()
}
