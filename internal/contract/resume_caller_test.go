package contract_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// The caller ends a Read wherever it waits: with Close from another goroutine,
// or with its context.
func TestResumeEndsWithItsCaller(t *testing.T) {
	const after = 30 * time.Second
	hangingAfter := func(content string) edits {
		return edits{func(r *http.Response) { r.Body = hanging(r.Request, content) }}
	}
	for where, newObject := range map[string]func() *object{
		"the first body":           func() *object { return &object{first: hangingAfter(letters[:100])} },
		"the delay":                func() *object { return &object{breaks: broken100} },
		"the request for the rest": func() *object { return &object{breaks: broken100, silent: true} },
		"the rest":                 func() *object { return &object{breaks: broken100, second: hangingAfter("")} },
	} {
		for how, tt := range map[string]struct {
			end    func(context.CancelCauseFunc, *http.Response) // after 30 s; nil: the deadline
			causes []error
			stop   awsretry.Stop
		}{
			"Close": {func(_ context.CancelCauseFunc, resp *http.Response) { resp.Body.Close() },
				[]error{http.ErrBodyReadAfterClose}, ""},
			"cancel": {func(cancel context.CancelCauseFunc, _ *http.Response) { cancel(errGone) },
				[]error{errGone, context.Canceled}, awsretry.StopCanceled},
			"deadline": {nil, []error{context.DeadlineExceeded}, awsretry.StopDeadline},
		} {
			if how == "deadline" && where == "the delay" {
				continue // it is not begun
			}
			inBubble(t, how+" in "+where, func(t *testing.T) {
				o := newObject()
				tr := continuing(o)
				if tr.Backoff = delayed(0); where == "the delay" {
					longDelay(tr)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.end == nil {
					ctx = within(t, after)
				}
				start := time.Now()
				resp := send(tr, httpfake.Request(t, ctx, "GET", nil)).response(t)
				if tt.end != nil {
					time.AfterFunc(after, func() { tt.end(cancel, resp) })
				}
				got, err := io.ReadAll(resp.Body)
				if took := time.Since(start); took != after || string(got) != letters[:100] {
					t.Errorf("%d bytes after %v", len(got), took)
				}
				if (result{err: err}).wantIs(t, tt.causes...); tt.stop != "" {
					wantBrokenOff(t, err, tt.stop, 100)
				}
				wantEnded(t, resp)
				resp.Body.Close()
				for _, b := range o.bodies { // Close may end a Read
					if b.Closes() != 1 {
						t.Errorf("closed %d times", b.Closes())
					}
				}
			})
		}
	}
}

// A context that ends between two Reads, or while the service refuses the rest,
// ends the body. Whether the refusal's own body has come by then makes no
// difference.
func TestResumeAfterTheContext(t *testing.T) {
	for name, body := range map[string]func(*http.Response){
		"between two Reads":             nil,
		"with a refusal":                func(r *http.Response) { r.Body = http.NoBody },
		"in the body of such a refusal": func(r *http.Response) { r.Body = hanging(r.Request, "<Error>") },
	} {
		inBubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o, says, requests := &object{breaks: broken100}, errBroken.Error(), 1
			if body != nil {
				o.second = edits{withStatus(503), body, func(*http.Response) { cancel(errGone) }}
				says, requests = "was 503", 2
			}
			resp := send(continuing(o), httpfake.Request(t, ctx, "GET", nil)).response(t)
			readBytes(t, resp, 100)
			if body == nil {
				cancel(errGone)
			}
			_, err := readToEnd(resp)
			wantBrokenOff(t, err, awsretry.StopCanceled, 100)
			result{err: err}.wantIs(t, errGone, context.Canceled, errBroken)
			if !strings.Contains(err.Error(), says) || len(o.ranges) != requests {
				t.Errorf("%v after %d requests", err, len(o.ranges))
			}
			o.wantClosed(t)
		})
	}
}

// wantEnded fails unless a Read of the body fails.
func wantEnded(t *testing.T, resp *http.Response) {
	t.Helper()
	if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("another Read returned %d, %v", n, err)
	}
}

// Close in the middle ends the download, whatever was read.
func TestCloseInTheMiddleOfAResumedBody(t *testing.T) {
	for read, requests := range map[int]int{0: 1, 100: 1, 101: 2, 260: 2} {
		synctest.Test(t, func(t *testing.T) {
			o := &object{breaks: broken100}
			resp := sendGet(t, continuing(o)).response(t)
			readBytes(t, resp, read)
			for range 2 {
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			n, err := resp.Body.Read(make([]byte, 1))
			if n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) || len(o.ranges) != requests {
				t.Errorf("Read after Close of %d bytes returned %d, %v; %d requests", read, n, err, len(o.ranges))
			}
			o.wantClosed(t)
		})
	}
}

// A panic of a hook leaves no token and no body.
func TestPanicDuringResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &object{breaks: broken100}
		tr := continuing(o)
		preparePanics(2)(tr)
		resp := sendGet(t, tr).response(t)
		readBytes(t, resp, 100)
		if p := httpfake.Recovered(func() { resp.Body.Read(make([]byte, 1)) }); p != "prepare" {
			t.Errorf("recovered %v", p)
		}
		wantEnded(t, resp)
		resp.Body.Close()
		wantTokens(t, tr, 500)
		o.wantClosed(t)
	})
}
