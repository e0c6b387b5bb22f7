package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"example.com/awsretry"
)

// bury hands a delivery that failed to DeadLetter and returns what RoundTrip returns.
func (t *Transport) bury(req *http.Request, body *keptBody, resp *http.Response, err error) (*http.Response, error) {
	taken := false
	defer func() {
		if !taken && resp != nil {
			resp.Body.Close() // DeadLetter failed, or panicked
		}
	}()
	dead := t.deadLetter(req, resp, err)
	// With its answer read to the end, Base lets go of the request's body, and the attempt's time-out no longer threatens
	// what the caller is to get.
	baseIsDone := resp == nil || readAhead(resp)
	done := body.again(dead.Request, t.attemptTimeout(), baseIsDone)
	defer done()

	failure := t.DeadLetter(dead.Request.Context(), dead)
	switch {
	case failure == nil:
		taken = true
		return resp, err
	case err != nil:
		return nil, fmt.Errorf("%w; and the dead letter was not taken: %w", err, unnamed(failure))
	}
	return nil, fmt.Errorf("delivery: answered %d %s; and the dead letter was not taken: %w", resp.StatusCode, http.StatusText(resp.StatusCode), unnamed(failure))
}

// errPanicked ends a delivery of which nothing else is known.
var errPanicked = errors.New("delivery: it ended in a panic")

// buryPanicked hands a delivery that ended in a panic to DeadLetter. An error
// of it has nowhere to go: the panic goes on.
func (t *Transport) buryPanicked(req *http.Request, body *keptBody, attempts int) {
	dead := t.deadLetter(req, nil, errPanicked)
	dead.Attempts, dead.Reason = attempts, "panic"
	done := body.again(dead.Request, t.attemptTimeout(), true)
	defer done()
	t.DeadLetter(dead.Request.Context(), dead)
}

// deadLetter returns the dead letter, but for the request's body.
func (t *Transport) deadLetter(req *http.Request, resp *http.Response, err error) DeadLetter {
	dead := DeadLetter{Request: req.Clone(context.WithoutCancel(req.Context())), Err: err}
	dead.Request.Trailer = req.Trailer // filled in while the body is read
	if dead.Request.Body == nil {
		dead.Request.Body = http.NoBody
	}
	//lint:ignore SA1019 a channel that is closed would cancel whatever is done with the dead letter
	dead.Request.Cancel = nil
	var content *RequestPolicy
	if t.Policy != nil {
		content = t.Policy.RequestPolicy
	}
	setContentType(dead.Request, content)

	stop := awsretry.StopPermanent
	if resp != nil {
		dead.Attempts = 1
		if last, ok := awsretry.Outcome(resp); ok {
			dead.Attempts, stop = last.Number, last.Stop
		}
		shown := *resp
		shown.Body = http.NoBody
		dead.Response = &shown
	}
	var gaveUp *awsretry.Error
	if errors.As(err, &gaveUp) {
		dead.Attempts, stop = gaveUp.Attempts, gaveUp.Stop
	}
	dead.Reason = string(stop)
	return dead
}

// maxAnswer is how much of the last answer is read ahead of a dead letter.
const maxAnswer = 1 << 20

// readAhead reads resp's body, and gives it back, and reports whether that was all of it.
func readAhead(resp *http.Response) bool {
	if _, ok := resp.Body.(io.Writer); ok {
		return false // a connection that changed hands
	}
	body := resp.Body
	held, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(held) > maxAnswer {
		resp.Body = &answer{bytes.NewReader(held), body, body}
		return false
	}
	if err == nil {
		err = io.EOF
	}
	resp.Body = &answer{bytes.NewReader(held), ended{err}, http.NoBody}
	body.Close()
	return true
}

// An answer is a response body of which the beginning was read.
type answer struct {
	held *bytes.Reader
	rest io.Reader
	body io.Closer
}

func (a *answer) Read(p []byte) (int, error) {
	if a.held.Len() > 0 {
		return a.held.Read(p)
	}
	return a.rest.Read(p)
}

func (a *answer) Close() error { return a.body.Close() }

// An ended is the rest of a body that ended with err.
type ended struct{ err error }

func (e ended) Read([]byte) (int, error) { return 0, e.err }
