package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
)

// A scene is a service and the calls to it, in virtual time.
type scene struct {
	service []step                                       // for one request after another, the last one from then on
	method  string                                       // "": GET, or PUT with a body
	body    func() io.Reader                             // nil: none
	calls   int                                          // one after another; 0: 1
	context func() (context.Context, context.CancelFunc) // nil: one without end
	tell    func(*played) string                         // nil: the attempts and the result
}

// A step is what the service does with a request.
type step struct {
	status  int      // 0: only err
	err     error    // of the transport
	header  []string // of the response, names and values in turn
	content string
	takes   time.Duration
}

var (
	success = step{status: 200}
	outage  = []step{{status: 503, content: "down until noon"}}
)

// retryAfter returns a response with that header, and then a success.
func retryAfter(status int, value string) []step {
	return []step{{status: status, header: []string{"Retry-After", value}}, success}
}

// afterError returns an error, and then a success.
func afterError(err error) []step { return []step{{err: err}, success} }

// afterDelay returns a slow success, and then a fast one.
func afterDelay(d time.Duration) []step { return []step{{status: 200, takes: d}, success} }

func statuses(all ...int) []step {
	var steps []step
	for _, s := range all {
		steps = append(steps, step{status: s})
	}
	return steps
}

// play runs the scene with a library, and returns what tell tells.
func (s scene) play(t *testing.T, wrap peers.Wrap) (result string) {
	synctest.Test(t, func(t *testing.T) {
		p := &played{scene: s, began: time.Now()}
		client := &http.Client{Transport: wrap(p)}
		for range max(s.calls, 1) {
			s.call(t, p, client)
		}
		synctest.Wait()
		tell := s.tell
		if tell == nil {
			tell = func(p *played) string { return p.attempts() + " → " + p.result() }
		}
		result = tell(p)
	})
	return result
}

// RoundTrip does what the service does with a request.
func (p *played) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.at = append(p.at, time.Since(p.began))
	p.signed = append(p.signed, req.Header.Get("X-Signature"))
	act := p.scene.service[min(len(p.at), len(p.scene.service))-1]
	p.mu.Unlock()
	sent, err := httpfake.Receive(req)
	if err != nil {
		return nil, err
	}
	kit.Pause(req.Context(), act.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, sent)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if act.status == 0 {
		return nil, act.err
	}
	return httpfake.Response(req, act.status, io.NopCloser(strings.NewReader(act.content)), act.header...), nil
}

func (s scene) call(t *testing.T, p *played, client *http.Client) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if s.context != nil {
		ctx, cancel = s.context()
	}
	defer cancel()
	method, body := http.MethodGet, io.Reader(nil)
	if s.body != nil {
		method, body = http.MethodPut, s.body()
	}
	if s.method != "" {
		method = s.method
	}
	p.request = kit.NewRequest(t, ctx, method, "http://service.example/thing", body)
	p.body = p.request.Body
	p.calls++
	p.resp, p.err = client.Do(p.request)
	p.took = time.Since(p.began)
	if p.resp != nil {
		p.content = httpfake.ReadAll(t, p.resp)
	}
}

// played is what happened in a scene. It is the RoundTripper that a library
// wraps.
type played struct {
	scene   scene
	began   time.Time
	request *http.Request // of the last call, as are the fields below
	body    io.ReadCloser // of request, at first
	resp    *http.Response
	content string // of resp
	err     error
	took    time.Duration
	calls   int

	mu     sync.Mutex // guards the fields below
	at     []time.Duration
	sent   []string // the request bodies of the attempts
	signed []string // their X-Signature
	notes  []string
}

func (p *played) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// count returns "1 attempt", or n and the plural.
func count(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprint(n, " attempts")
}

// attempts tells how many attempts reached the service, and when.
func (p *played) attempts() string {
	var at []string
	for _, d := range p.at {
		at = append(at, d.Round(time.Millisecond).String())
	}
	if len(at) == 1 || len(at) > 8 {
		return count(len(at))
	}
	return count(len(at)) + " at " + strings.Join(at, ", ")
}

var urlPrefix = regexp.MustCompile(`^[A-Z][a-z]+ "[^"]*": |[A-Z]+ http://service\.example/thing `)

// result tells what the last call returned.
func (p *played) result() string {
	switch {
	case p.err == nil && p.content != "":
		return fmt.Sprintf("%d %q", p.resp.StatusCode, p.content)
	case p.err == nil:
		return fmt.Sprint(p.resp.StatusCode)
	}
	text := p.err.Error()
	for urlPrefix.MatchString(text) {
		text = urlPrefix.ReplaceAllString(text, "")
	}
	return "error: " + text
}

// is tells which of some errors the error matches.
func (p *played) is(errs ...error) string {
	if p.err == nil {
		return p.result()
	}
	var found []string
	for _, err := range errs {
		if errors.Is(p.err, err) {
			found = append(found, err.Error())
		}
	}
	if found == nil {
		return "an error that is none of them"
	}
	return "an error that is " + strings.Join(found, " and ")
}

// countOnly leaves out the times, which are random.
func countOnly(p *played) string { return count(len(p.at)) + " → " + p.result() }

// inCalls tells how many attempts the calls made.
func inCalls(p *played) string { return fmt.Sprintf("%s in %d calls", count(len(p.at)), p.calls) }

// number tells only how many attempts there were.
func number(p *played) string { return count(len(p.at)) }

// whole tells how many of the attempts sent the whole body.
func whole(want string) func(*played) string {
	return func(p *played) string {
		n := 0
		for _, sent := range p.sent {
			if sent == want {
				n++
			}
		}
		return fmt.Sprintf("%s, %d with the whole body → %s", count(len(p.at)), n, p.result())
	}
}

// sentAfter tells when the first attempt reached the service.
func sentAfter(p *played) string { return "sent after " + p.at[0].String() + " → " + p.result() }

// duration tells how long the last call took.
func duration(p *played) string {
	return fmt.Sprintf("%s → %s after %v", p.attempts(), p.result(), p.took)
}

// endedIn tells when the call ended, and which of some errors it returned.
func endedIn(errs ...error) func(*played) string {
	return func(p *played) string { return fmt.Sprintf("%s in %v → %s", count(len(p.at)), p.took, p.is(errs...)) }
}

// delayed tells whether the second attempt came in time.
func delayed(lo, hi time.Duration) func(*played) string {
	return func(p *played) string {
		if len(p.at) == 2 && p.at[1] >= lo && p.at[1] <= hi {
			return fmt.Sprintf("a delay of %v to %v", lo, hi)
		}
		return p.attempts()
	}
}

// allNotes tells the notes.
func allNotes(p *played) string { return strings.Join(p.notes, ", ") }
