package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	gocmp "github.com/google/go-cmp/cmp"
)

// A peer is a library for retries, with what it promises.
type peer struct {
	name, module string
	wrap         wrapper // its default settings
	promises     []promise
}

// A promise is one that a peer makes in its documents. A scene shows what comes
// of it with the peer and with awsretry.
type promise struct {
	says   string // in our words
	scene  scene
	theirs wrapper   // nil: the peer's wrap
	with   []setting // of the Transport
	ours   wrapper   // nil: a Transport with these settings
	by     string    // what else ours sets
}

// A wrapper puts a library around a service. It may add notes to what is
// played.
type wrapper func(http.RoundTripper, *played) http.RoundTripper

// The peers keep the promises in docs/results/promises.md as it says, and so does
// awsretry. The test makes the page, but for where a promise is made and why
// awsretry does otherwise.
func TestPeers(t *testing.T) {
	const page = "promises.md"
	old, err := os.ReadFile(filepath.Join(resultsFolder, page))
	if err != nil {
		t.Fatal(err)
	}
	var tables strings.Builder
	for _, peer := range []peer{retryablehttpPeer(), rehttpPeer(), failsafePeer()} {
		title := fmt.Sprintf("\n## %s %s\n", peer.name, moduleVersion(t, peer.module))
		tables.WriteString(title + "\n| It promises | In | It does | awsretry does | Why not the same |\n" +
			"|---|---|---|---|---|\n")
		_, written, _ := strings.Cut(string(old), title)
		for _, p := range peer.promises {
			var it, we string
			t.Run(peer.name+"/"+p.says, func(t *testing.T) { it, we = p.play(t, peer) })
			where, why := "", ""
			if _, rest, ok := strings.Cut(written, "\n| "+p.says+" | "); ok {
				row, _, _ := strings.Cut(rest, " |\n")
				cells := strings.Split(row, " | ")
				where, why = cells[0], cells[len(cells)-1]
			}
			if (we == it) != (why == "") {
				t.Errorf("%s: a difference needs a reason, and a reason needs a difference", p.says)
			}
			if we == it {
				we = "the same"
			}
			fmt.Fprintf(&tables, "| %s | %s | %s | %s | %s |\n", p.says, where, it, we+p.settings(), why)
		}
	}
	checkDocument(t, "TestPeers$", page, "What the peers promise", tables.String())
}

// play returns what the peer does, and what awsretry does.
func (p promise) play(t *testing.T, peer peer) (it, we string) {
	theirs, ours := p.theirs, p.ours
	if theirs == nil {
		theirs = peer.wrap
	}
	if ours == nil {
		var set []func(*awsretry.Transport)
		for _, s := range p.with {
			set = append(set, s.set)
		}
		ours = awsretryOf(set...)
	}
	return p.scene.play(t, theirs), p.scene.play(t, ours)
}

// settings returns what is set of awsretry.
func (p promise) settings() string {
	by := p.by
	for _, s := range p.with {
		by += ", " + s.by
	}
	if by = strings.TrimPrefix(by, ", "); by == "" {
		return ""
	}
	return ", with `" + by + "`"
}

// moduleVersion returns the version of a module in go.mod.
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

const resultsFolder = "../docs/results"

// checkDocument compares a page of docs/results with what the named test shows.
// If UPDATE is set, it writes the page.
func checkDocument(t *testing.T, test, page, title, tables string) {
	t.Helper()
	text := updateDocument(t, test, page, title, tables)
	old, err := os.ReadFile(filepath.Join(resultsFolder, page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(old), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s is not what the test shows; UPDATE=1 go test -run %s writes it. Document to test:\n%s",
			page, test, diff)
	}
}

// updateDocument writes a page of docs/results if UPDATE is set, and returns it.
func updateDocument(t *testing.T, test, page, title, tables string) string {
	t.Helper()
	text := fmt.Sprintf("# %s\n\nWritten by `cd interop && UPDATE=1 go test -run %s`.\n%s", title, test, tables)
	if os.Getenv("UPDATE") != "" {
		writeFile(t, filepath.Join(resultsFolder, page), []byte(text))
	}
	return text
}

// awsretryOf returns a wrapper with a Transport of some settings.
func awsretryOf(set ...func(*awsretry.Transport)) wrapper {
	return func(b http.RoundTripper, _ *played) http.RoundTripper {
		tr := &awsretry.Transport{Base: b}
		for _, s := range set {
			s(tr)
		}
		return tr
	}
}

// observing returns a wrapper whose Transport adds notes.
func observing(observe func(*played, awsretry.Attempt), set ...func(*awsretry.Transport)) wrapper {
	return func(b http.RoundTripper, p *played) http.RoundTripper {
		return awsretryOf(append(set, func(tr *awsretry.Transport) {
			tr.Observe = func(a awsretry.Attempt) { observe(p, a) }
		})...)(b, p)
	}
}

// A setting of awsretry has a name in the tables.
type setting struct {
	by  string
	set func(*awsretry.Transport)
}

type settings = []setting

var (
	unspread     = setting{"RetryAfterSpread: -1", func(tr *awsretry.Transport) { tr.RetryAfterSpread = -1 }}
	fiveAttempts = setting{"MaxAttempts: 5", func(tr *awsretry.Transport) { tr.MaxAttempts = 5 }}
	manyAttempts = setting{"MaxAttempts: 1000", func(tr *awsretry.Transport) { tr.MaxAttempts = 1000 }}
	unbuffered   = setting{"MaxBodyBuffer: -1", func(tr *awsretry.Transport) { tr.MaxBodyBuffer = -1 }}
	twoSeconds   = setting{"AttemptTimeout: 2 s", func(tr *awsretry.Transport) { tr.AttemptTimeout = 2 * time.Second }}
	unjittered   = backoff("Exponential{Jitter: NoJitter}", awsretry.Exponential{Jitter: awsretry.NoJitter})
	// What rehttp calls ConstDelay(time.Second).
	everySecond = backoff("Exponential{Max: 1 s, Jitter: NoJitter}",
		awsretry.Exponential{Max: time.Second, Jitter: awsretry.NoJitter})
	idempotentOnly = setting{"IdempotentOnly", func(tr *awsretry.Transport) { tr.Policy = awsretry.IdempotentOnly(nil) }}
)

func backoff(by string, b awsretry.Backoff) setting {
	return setting{by, func(tr *awsretry.Transport) { tr.Backoff = b }}
}

func withPolicy(policy awsretry.Policy) setting {
	return setting{"Policy", func(tr *awsretry.Transport) { tr.Policy = policy }}
}

// retryStatus makes one more status transient.
func retryStatus(status int) setting {
	return withPolicy(func(a *awsretry.Attempt) awsretry.Class {
		if a.Response != nil && a.Response.StatusCode == status {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	})
}

var errConnReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// A timeoutError is a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string { return "no response in time" }

func (timeoutError) Timeout() bool { return true }

func (timeoutError) Temporary() bool { return true }

// cancelAfter returns the context of a caller who goes away.
func cancelAfter(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
}

func deadlineIn(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
}

// slowly returns a body whose first byte takes five seconds.
func slowly(content string) func() io.Reader {
	return func() io.Reader {
		return httpfake.SlowReader(context.Background(), 5*time.Second/2, strings.NewReader(content))
	}
}

func aStream(content string) func() io.Reader {
	return func() io.Reader { return streamOf(content) }
}

func inMemory(content string) func() io.Reader {
	return func() io.Reader { return bytes.NewReader([]byte(content)) }
}

func many503(n int) []int { return slices.Repeat([]int{503}, n) }
