package contract_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// An option of one request takes precedence over the Transport.
func TestOptionsOfOneRequest(t *testing.T) {
	never := func(*awsretry.Attempt) awsretry.Class { return awsretry.Permanent }
	timedOut := func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout }
	const s = time.Second
	bg := context.Background() // without a channel from outside the bubble
	for _, tt := range []struct {
		name  string
		tr    *transport
		ctx   context.Context
		sends int
		took  time.Duration
		class awsretry.Class
	}{
		{"attempts", &transport{}, awsretry.WithMaxAttempts(bg, 5), 5, 54 * s, awsretry.Transient},
		{"no timeout", &transport{AttemptTimeout: s}, awsretry.WithAttemptTimeout(bg, 0), 3, 32 * s, awsretry.Transient},
		{"policy", &transport{}, awsretry.WithPolicy(bg, never), 1, 10 * s, awsretry.Permanent},
		{"default policy", &transport{Policy: never}, awsretry.WithPolicy(bg, nil), 3, 32 * s, awsretry.Transient},
		{"no backoff", &transport{}, awsretry.WithBackoff(bg, nil), 3, 32 * s, awsretry.Transient},
		{"backoff completed by the revision", &transport{Revision: awsretry.Revision2026},
			awsretry.WithBackoff(bg, noJitter), 3, 30*s + 150*time.Millisecond, awsretry.Transient},
		{"all", &transport{}, awsretry.WithBackoff(awsretry.WithPolicy(awsretry.WithAttemptTimeout(
			awsretry.WithMaxAttempts(bg, 2), s), timedOut), delayed(7*s)), 2, 9 * s, awsretry.Timeout},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var seen []awsretry.Attempt
			tt.tr.Base, tt.tr.Backoff = slowly(10*time.Second, 0, 503, ""), delayed(time.Second)
			tt.tr.Observe = func(a awsretry.Attempt) { seen = append(seen, a) }
			r := send(tt.tr, httpfake.Request(t, tt.ctx, "GET", nil))
			if r.took != tt.took || len(seen) != tt.sends || seen[0].Class != tt.class {
				t.Errorf("%d attempts, the first %v, in %v; want %d, %v, %v",
					len(seen), seen[0].Class, r.took, tt.sends, tt.class, tt.took)
			}
		})
	}
}

// An option that makes no sense is an error that names it, and nothing is sent.
func TestOptionsThatMakeNoSense(t *testing.T) {
	ctx := t.Context()
	for want, ctx := range map[string]context.Context{
		"WithMaxAttempts has 0":           awsretry.WithMaxAttempts(ctx, 0),
		"WithAttemptTimeout has -1s":      awsretry.WithAttemptTimeout(ctx, -time.Second),
		"nil *awsretry.Exponential":       awsretry.WithBackoff(ctx, (*awsretry.Exponential)(nil)),
		"WithBackoff: Backoff.Factor":     awsretry.WithBackoff(ctx, awsretry.Exponential{Factor: .5}),
		"WithMaxAttempts has -2 attempts": awsretry.WithPolicy(awsretry.WithMaxAttempts(ctx, -2), nil),
	} {
		t.Run(want, func(t *testing.T) {
			source := httpfake.NewBody(strings.NewReader("x"))
			r := send(once(notSent(t)), httpfake.Request(t, ctx, "PUT", source))
			if wantNotSent(t, r.err, awsretry.StopPermanent); !strings.Contains(r.String(), want) {
				t.Errorf("%v; want an error with %q", r, want)
			}
			wantClosed(t, source)
		})
	}
}

// The last option of a kind replaces the ones before it, valid or not, and no other
// option does.
func TestLastOptionHolds(t *testing.T) {
	type option func(context.Context) context.Context
	attempts := func(n int) option {
		return func(ctx context.Context) context.Context { return awsretry.WithMaxAttempts(ctx, n) }
	}
	timeout := func(d time.Duration) option {
		return func(ctx context.Context) context.Context { return awsretry.WithAttemptTimeout(ctx, d) }
	}
	backoff := func(b awsretry.Backoff) option {
		return func(ctx context.Context) context.Context { return awsretry.WithBackoff(ctx, b) }
	}
	noSense := backoff(awsretry.Exponential{Factor: .5})
	for name, options := range map[string]struct{ bad, good, other option }{
		"WithMaxAttempts":         {attempts(0), attempts(3), timeout(0)},
		"WithAttemptTimeout":      {timeout(-1), timeout(0), backoff(nil)},
		"WithBackoff":             {noSense, backoff(delayed(0)), attempts(3)},
		"WithBackoff without one": {noSense, backoff(nil), attempts(3)},
	} {
		t.Run(name, func(t *testing.T) {
			valid := options.good(options.bad(t.Context()))
			send(retrying(always(ok)), httpfake.Request(t, valid, "GET", nil)).wantBody(t, "")
			for _, ctx := range []context.Context{options.bad(valid), options.other(options.bad(valid))} {
				r := send(once(notSent(t)), httpfake.Request(t, ctx, "GET", nil))
				wantNotSent(t, r.err, awsretry.StopPermanent)
			}
		})
	}
}
