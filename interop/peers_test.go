package interop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A peer is a library for retries, with what it promises.
type peer struct {
	name, module string
	promises     []promise
}

// A promise is one that a peer makes in its documents, what comes of it in a scene there and here, and why it differs.
type promise struct {
	says   string // in our words
	where  string // the peer's document
	scene  scene
	theirs wrapper
	ours   wrapper
	by     string // what of awsretry is set; "": nothing
	it     string // what the peer does
	we     string // what awsretry does; "": the same
	why    string // it differs; "" where it does not
}

// A wrapper puts a library around a service. What it has to tell beside that it notes.
type wrapper func(http.RoundTripper, *played) http.RoundTripper

// TestPeers holds the peers to their promises, and us to what docs/COMPARISON.md says about them.
func TestPeers(t *testing.T) {
	var document strings.Builder
	for _, peer := range []peer{retryablehttpPeer(), rehttpPeer(), failsafePeer()} {
		fmt.Fprintf(&document, "\n### %s %s\n\n| It promises | In | It does | awsretry does | Why not the same |\n|---|---|---|---|---|\n", peer.name, moduleVersion(t, peer.module))
		for i, p := range peer.promises {
			t.Run(fmt.Sprint(peer.name, "/", i+1, " ", p.says), func(t *testing.T) {
				p.check(t, peer.name)
			})
			we := cmp.Or(p.we, "the same")
			if p.by != "" {
				we += ", with `" + p.by + "`"
			}
			fmt.Fprintf(&document, "| %s | %s | %s | %s | %s |\n", p.says, p.where, p.it, we, p.why)
		}
	}
	checkDocument(t, document.String())
}

func (p promise) check(t *testing.T, name string) {
	if (p.we != "") != (p.why != "") {
		t.Error("a difference needs a reason, and a reason a difference")
	}
	if got := p.scene.play(t, p.theirs); got != p.it {
		t.Errorf("%s does\n%s, the table says\n%s", name, got, p.it)
	}
	if got, want := p.scene.play(t, p.ours), cmp.Or(p.we, p.it); got != want {
		t.Errorf("awsretry does\n%s, the table says\n%s", got, want)
	}
}

// moduleVersion is the version of a module that is tested with, by go.mod.
func moduleVersion(t *testing.T, module string) string {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\t"+module+" ")
	if !ok {
		t.Fatalf("go.mod does not require %s", module)
	}
	version, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(version)[0]
}

const (
	comparison = "../docs/COMPARISON.md"
	begin      = "<!-- TestPeers writes from here: UPDATE=1 go test -run TestPeers -->"
	end        = "<!-- to here -->"
)

// checkDocument compares the tables in the document with those of the test, or writes them there when UPDATE is set.
func checkDocument(t *testing.T, tables string) {
	text, err := os.ReadFile(comparison)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin+"\n")
	old, after, ok2 := strings.Cut(rest, "\n"+end)
	if !ok || !ok2 {
		t.Fatalf("%s has no lines %q and %q", comparison, begin, end)
	}
	if old == tables {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s is not what the tests show; UPDATE=1 go test -run TestPeers writes it", comparison)
	}
	if err := os.WriteFile(comparison, []byte(before+begin+"\n"+tables+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A scene is a service and what is asked of it. It is played in virtual time.
type scene struct {
	service []step                                       // in turn, the last one for ever
	method  string                                       // "": GET, or PUT where there is a body
	body    func() io.Reader                             // nil: none
	calls   int                                          // one after the other; 0: 1
	context func() (context.Context, context.CancelFunc) // nil: one without end
	tell    func(*played) string                         // nil: the attempts and what came back
}

// A step is what the service does with a request.
type step struct {
	status  int      // 0: none but err
	err     error    // of the transport
	header  []string // of the answer, names and values in turn
	content string
	takes   time.Duration
}

func statuses(all ...int) []step {
	var steps []step
	for _, s := range all {
		steps = append(steps, step{status: s})
	}
	return steps
}

// played is what happened in a scene.
type played struct {
	t       *testing.T
	began   time.Time
	request *http.Request // the last call's, and its body
	body    io.ReadCloser
	resp    *http.Response
	content string // of resp
	err     error
	took    time.Duration

	mu     sync.Mutex // guards the fields below, which attempts at the same time write
	at     []time.Duration
	bodies []string // that the attempts sent
	signed []string // their X-Signature
	closed int      // answers
	notes  []string
}

func (p *played) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (s scene) play(t *testing.T, wrap wrapper) (told string) {
	synctest.Test(t, func(t *testing.T) {
		p := &played{t: t, began: time.Now()}
		client := &http.Client{Transport: wrap(serviceFunc(func(req *http.Request) (*http.Response, error) { return s.serve(p, req) }), p)}
		for range max(s.calls, 1) {
			s.call(p, client)
		}
		synctest.Wait()
		tell := s.tell
		if tell == nil {
			tell = func(p *played) string { return p.attempts() + " → " + p.result() }
		}
		told = tell(p)
	})
	return told
}

type serviceFunc func(*http.Request) (*http.Response, error)

func (f serviceFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (s scene) serve(p *played, req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.at = append(p.at, time.Since(p.began))
	p.signed = append(p.signed, req.Header.Get("X-Signature"))
	act := s.service[min(len(p.at), len(s.service))-1]
	p.mu.Unlock()
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		p.bodies = append(p.bodies, string(body))
		p.mu.Unlock()
	}
	select {
	case <-time.After(act.takes):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if act.status == 0 {
		return nil, act.err
	}
	resp := &http.Response{
		StatusCode: act.status, Status: fmt.Sprint(act.status, " ", http.StatusText(act.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Request: req, ContentLength: -1,
		Body: &countedAnswer{strings.NewReader(act.content), p},
	}
	for i := 0; i < len(act.header); i += 2 {
		resp.Header.Add(act.header[i], act.header[i+1])
	}
	return resp, nil
}

type countedAnswer struct {
	io.Reader
	p *played
}

func (c *countedAnswer) Close() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.closed++
	return nil
}

func (s scene) call(p *played, client *http.Client) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if s.context != nil {
		ctx, cancel = s.context()
	}
	defer cancel()
	method, body := s.method, io.Reader(nil)
	if s.body != nil {
		body = s.body()
		method = "PUT"
	}
	if s.method != "" {
		method = s.method
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://service.example/thing", body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.request, p.body = req, req.Body
	p.resp, p.err = client.Do(req)
	p.took = time.Since(p.began)
	if p.resp != nil {
		content, _ := io.ReadAll(p.resp.Body)
		p.content = string(content)
		p.resp.Body.Close()
	}
}

// count is n attempts.
func count(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprint(n, " attempts")
}

// attempts says how often the service was asked, and when.
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

// result says what came back.
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

// is says of which errors the error is.
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
