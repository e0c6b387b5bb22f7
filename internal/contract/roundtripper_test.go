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
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A bodyUse is one of the ways in which Base treats a request body.
type bodyUse struct {
	name    string
	read    int           // bytes; -1: all
	late    time.Duration // how long after its return Base closes the body
	twice   bool          // Base closes it twice, as net/http may; only a body that is not the caller's own
	warm    bool          // the Transport has sent another request before
	timeout bool
}

var bodyUses = []bodyUse{
	{name: "read whole", read: -1},
	{name: "read whole by a second request", read: -1, warm: true},
	{name: "read whole and closed twice", read: -1, twice: true},
	{name: "unread and closed late", late: 50 * time.Millisecond},
	{name: "read in part and closed late", read: 4, late: 50 * time.Millisecond},
	{name: "read in part under a time-out", read: 4, timeout: true},
}

// Whatever ends RoundTrip, it returns either a response or an error, the
// request body is closed once, the last response is whole, and the others are
// closed.
func TestEveryEnding(t *testing.T) {
	for _, end := range endings {
		for kind := range bodyKinds {
			for _, use := range bodyUses {
				t.Run(end.name+"/"+kind+"/"+use.name, func(t *testing.T) {
					sent := bodyKinds[kind](t, "the request's body")
					synctest.Test(t, func(t *testing.T) { end.test(t, sent, use) })
				})
			}
		}
	}
}

func (end ending) test(t *testing.T, sent *sentBody, use bodyUse) {
	base := &scriptedBase{use: use, ownBody: sent.getBody != nil}
	tr := &transport{Base: base, Backoff: contract.Delay(0)}
	if end.change != nil {
		end.change(tr)
	}
	if use.timeout && tr.AttemptTimeout == 0 {
		tr.AttemptTimeout = time.Hour
	}
	if use.warm && end.before == nil && tr.Validate() == nil && !end.panics {
		base.outcomes = []outcome{ok}
		get(t, tr) // what ends the call may end this one too
	}
	if end.before != nil {
		base.outcomes = end.before
		resp, err := get(t, tr)
		if err != nil {
			t.Fatal("the request before:", err)
		}
		resp.Body.Close()
	}
	*base = scriptedBase{use: use, ownBody: base.ownBody, outcomes: end.outcomes}

	ctx := t.Context()
	if end.ctx != nil {
		var cancel context.CancelFunc
		ctx, cancel = end.ctx(ctx)
		defer cancel()
	}
	req := httpfake.Request(t, ctx, "PUT", nil)
	sent.attachTo(req)
	if end.header != nil {
		req.Header = end.header.Clone()
	}
	resp, err, panicked := tryRoundTrip(tr, req)

	switch {
	case panicked != end.panics:
		t.Fatalf("panicked: %v", panicked)
	case panicked:
	case (resp == nil) == (err == nil):
		t.Fatalf("RoundTrip = %v, %v; want exactly one of them", resp, err)
	case contract.StopOf(resp, err) != end.stop:
		t.Errorf("stopped by %q, want %q; %v", contract.StopOf(resp, err), end.stop, err)
	}
	if base.sends != end.sends {
		t.Errorf("%d attempts, want %d", base.sends, end.sends)
	}
	if resp != nil {
		last := base.responses[len(base.responses)-1]
		if last.Closes() > 0 {
			t.Error("the response is closed")
		}
		if got := httpfake.ReadAll(t, resp); got != "a response" || last.Closes() != 1 {
			t.Errorf("the response is %q, and Close closed it %d times", got, last.Closes())
		}
	}
	for i, body := range base.responses {
		if body.Closes() == 0 {
			t.Errorf("response %d is open", i+1)
		}
	}
	time.Sleep(time.Second) // Base may close the request body late
	for i, n := range sent.closes {
		if n.Load() != 1 {
			t.Errorf("request body %d was closed %d times", i+1, n.Load())
		}
	}
}

// A scriptedBase uses the request body as its test says and goes through a list
// of outcomes.
type scriptedBase struct {
	outcomes  []outcome
	use       bodyUse
	ownBody   bool // the first attempt has the body of the caller's own request
	sends     int
	responses []*httpfake.Body
}

func (b *scriptedBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.sends++
	if req.Body != nil {
		b.receive(req.Body)
	}
	next := b.outcomes[0]
	b.outcomes = b.outcomes[1:]
	body := httpfake.NewBody(strings.NewReader("a response"))
	resp, err := next(req, body)
	if resp != nil {
		b.responses = append(b.responses, body)
	}
	return resp, err
}

func (b *scriptedBase) receive(body io.ReadCloser) {
	if n := b.use.read; n < 0 {
		io.Copy(io.Discard, body)
	} else {
		io.CopyN(io.Discard, body, int64(n))
	}
	if b.use.late > 0 {
		time.AfterFunc(b.use.late, func() { body.Close() })
		return
	}
	body.Close()
	if b.use.twice && !b.ownBody {
		body.Close()
	}
}

// A body that Base cannot have closed, because it panicked, is closed for it.
func TestBodyIsClosedAfterAPanicOfBase(t *testing.T) {
	for _, kind := range []string{"file", "section", "stream"} {
		t.Run(kind, func(t *testing.T) {
			sent := bodyKinds[kind](t, "the body")
			tr := &transport{Base: httpfake.Base(func(*http.Request) (*http.Response, error) { panic("base") })}
			req := httpfake.Request(t, t.Context(), "PUT", nil)
			sent.attachTo(req)
			if _, _, panicked := tryRoundTrip(tr, req); !panicked || sent.closes[0].Load() != 1 {
				t.Errorf("panicked: %v; closed %d times", panicked, sent.closes[0].Load())
			}
		})
	}
}

// A Base that breaks its own contract makes an error, or a body.
func TestBrokenBase(t *testing.T) {
	both := errors.New("both")
	for _, tt := range []struct {
		name string
		resp *http.Response
		err  error
		want string
	}{
		{"neither response nor error", nil, nil, "neither a response nor an error"},
		{"both", &http.Response{StatusCode: 200, Body: http.NoBody}, both, "both"},
		{"both, without a body", &http.Response{StatusCode: 200}, both, "both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := get(t, once(func(*http.Request) (*http.Response, error) { return tt.resp, tt.err }))
			if resp != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
	for _, status := range []int{204, 404} {
		t.Run("a response without a body", func(t *testing.T) {
			resp, err := get(t, &transport{Base: httpfake.Base(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status}, nil
			})})
			if err != nil || resp.Body == nil {
				t.Fatal(resp, err)
			}
			if record, ok := awsretry.Outcome(resp); ok != (status == 404) || ok && record.Response != resp {
				t.Errorf("its record is %+v, %v", record, ok)
			}
		})
	}
}
