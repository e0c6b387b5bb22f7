package interop

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Settings of awsretry, and their names in the tables.
const (
	byNoSpread     = "RetryAfterSpread: -1"
	byNoJitter     = "Exponential{Jitter: NoJitter}"
	byEverySecond  = "Exponential{Max: 1 s, Jitter: NoJitter}"
	byFiveAttempts = "MaxAttempts: 5"
	byManyAttempts = "MaxAttempts: 1000, " + byEverySecond
	byTimeout      = "AttemptTimeout: 2 s"
)

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

func unjittered(tr *awsretry.Transport) { tr.Backoff = awsretry.Exponential{Jitter: awsretry.NoJitter} }

func unspread(tr *awsretry.Transport) { tr.RetryAfterSpread = -1 }

func fiveAttempts(tr *awsretry.Transport) { tr.MaxAttempts = 5 }

func manyAttempts(tr *awsretry.Transport) { tr.MaxAttempts = 1000 }

func unbuffered(tr *awsretry.Transport) { tr.MaxBodyBuffer = -1 }

func twoSeconds(tr *awsretry.Transport) { tr.AttemptTimeout = 2 * time.Second }

// everySecond sets what rehttp calls ConstDelay(time.Second).
func everySecond(tr *awsretry.Transport) {
	tr.Backoff = awsretry.Exponential{Max: time.Second, Jitter: awsretry.NoJitter}
}

// retryStatus makes one more status transient.
func retryStatus(status int) func(*awsretry.Transport) {
	return func(tr *awsretry.Transport) {
		tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
			if a.Response != nil && a.Response.StatusCode == status {
				return awsretry.Transient
			}
			return awsretry.DefaultPolicy(a)
		}
	}
}

var errConnReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// A timeoutError is a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string   { return "no response in time" }
func (timeoutError) Timeout() bool   { return true }
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

// Reasons that the tables give more than once.
const (
	overMaxRetryAfter = "A delay above MaxRetryAfter (1 min) is the caller's decision: the response is returned"
	writtenWhileSent  = "A body may be written while the response is read, so it is buffered while it is sent"
	bucketEnds        = "The retry token bucket (500 tokens, 5 for a retry) ends them, unless QuotaConfig.Capacity is -1"
)
