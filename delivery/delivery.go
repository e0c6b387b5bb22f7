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

// A progress records the attempts while they are made.
type progress struct {
	attempts  int  // that were begun
	delivered bool // an attempt got a 2xx, even if its body broke off or a hook panicked then

	// Of a single attempt:
	number int              // in its delivery; 0 if the Transport makes all attempts
	record awsretry.Attempt // once it was made
}

// A progressKey is the context key of a Transport's progress. Base may send
// requests of its own with the context, through another Transport.
type progressKey struct{ *Transport }

// progressOf returns the progress of the delivery that ctx belongs to.
func (t *Transport) progressOf(ctx context.Context) *progress {
	if p, ok := ctx.Value(progressKey{t}).(*progress); ok {
		return p
	}
	return &progress{} // there is no DeadLetter, and all attempts are the Transport's
}

// run makes the delivery and, if that fails, hands over the dead letter.
func (d *delivery) run(inner *awsretry.Transport) (*http.Response, error) {
	d.bodyFree = true // also after a panic
	defer func() { d.body.Release(d.bodyFree) }()
	resp, err := d.send(inner, d.outgoing())
	d.bodyFree = resp == nil
	if d.delivered {
		return resp, err
	}
	return d.bury(resp, err)
}

// send makes the attempts. If Base or a hook panics, it hands over the dead
// letter and the panic goes on.
func (d *delivery) send(inner *awsretry.Transport, req *http.Request) (*http.Response, error) {
	returned := false
	defer func() {
		if !returned && !d.delivered {
			_, _ = d.bury(nil, errPanicked) // the error of DeadLetter has nowhere to go
		}
	}()
	resp, err := inner.RoundTrip(req)
	returned = true
	return resp, err
}

// errPanicked is the error of a delivery in which Base or a hook panicked.
var errPanicked = errors.New("delivery: it ended in a panic")

// bury hands the delivery to DeadLetter, and returns what RoundTrip returns.
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

// deadLetter returns the dead letter, whose request still needs its body.
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

// maxReadAhead is how much of the last response's body is read before
// DeadLetter is called.
const maxReadAhead = 1 << 20

// readAhead reads as much of resp's body as possible, and gives it back, and
// reports whether that is all of it. Base has then no more use for the
// request's body, and the attempt's time-out cannot cut off what the caller is
// to get.
func readAhead(resp *http.Response) (all bool) {
	if _, ok := resp.Body.(io.Writer); ok {
		return false // a connection that changed hands
	}
	shown, ahead := respbody.Read(resp, maxReadAhead+1, nil) // one more byte, to see the end
	ahead.Settle(context.Background())                       // the attempt's time-out bounds it
	resp.Body = shown.Body                                   // awsretry.Outcome knows no copy of resp
	return ahead.AtEnd()
}
