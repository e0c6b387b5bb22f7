package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
)

// A peer is a library for retries, with what it promises.
type peer struct {
	name, module string
	wrap         peers.Wrap // its default settings
	promises     []promise
}

// A promise is one that a peer makes in its documents. A scene shows what comes
// of it with the peer and with awsretry.
type promise struct {
	says   string // in our words
	scene  scene
	theirs peers.Wrap // nil: the peer's wrap
	with   []setting  // of the Transport
	ours   peers.Wrap // nil: a Transport with these settings
	by     string     // what else ours sets
}

// The peers keep the promises in docs/results/promises.md as it says, and so does
// awsretry. The test makes the page, except for where a promise is made and why
// awsretry does otherwise.
func TestPeers(t *testing.T) {
	page := kit.Page{File: "promises.md", Title: "What the peers promise", By: "interop TestPeers"}
	old := page.Read(t)
	var tables strings.Builder
	for _, peer := range []peer{retryablehttpPeer(), rehttpPeer(), failsafePeer()} {
		title := fmt.Sprintf("\n## %s %s\n", peer.name, moduleVersion(t, peer.module))
		tables.WriteString(title + "\n| It promises | In | It does | awsretry does | Why not the same |\n" +
			"|---|---|---|---|---|\n")
		_, written, _ := strings.Cut(old, title)
		for _, p := range peer.promises {
			it, we := p.play(t, peer)
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
	page.Check(t, tables.String())
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
		ours = peers.Awsretry(set...)
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
	text := kit.Must[[]byte](t)(os.ReadFile("go.mod"))
	_, rest, ok := strings.Cut(string(text), "\t"+module+" ")
	if !ok {
		t.Fatalf("go.mod does not require %s", module)
	}
	version, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(version)[0]
}

// observing wraps with a Transport that adds notes to what is played.
func observing(observe func(*played, awsretry.Attempt), set ...func(*awsretry.Transport)) peers.Wrap {
	return func(b http.RoundTripper) http.RoundTripper {
		return peers.Awsretry(append(set, func(tr *awsretry.Transport) {
			tr.Observe = func(a awsretry.Attempt) { observe(b.(*played), a) }
		})...)(b)
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
	return func() io.Reader { return kit.StreamOf(content) }
}

func inMemory(content string) func() io.Reader {
	return func() io.Reader { return bytes.NewReader([]byte(content)) }
}

func many503(n int) []int { return slices.Repeat([]int{503}, n) }
