package poll_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
	"example.com/awsretry/poll"
)

var errBoom = errors.New("boom")

type outcome struct {
	state poll.State
	err   error
}

// script returns a check that returns the outcomes in order, and then always
// the last one. It records in asked when it is called.
func script(asked *[]time.Duration, outcomes ...outcome) func(context.Context) (poll.State, error) {
	start := time.Now()
	return func(context.Context) (poll.State, error) {
		n := min(len(*asked), len(outcomes)-1)
		*asked = append(*asked, time.Since(start))
		return outcomes[n].state, outcomes[n].err
	}
}

const ms = time.Millisecond

// The outcomes without an error.
var (
	done        = outcome{poll.Done, nil}
	notReady    = outcome{poll.NotReady, nil}
	throttled   = outcome{poll.Throttled, nil}
	serverError = outcome{poll.ServerError, nil}
)

// backoff is a Backoff of seconds.
func backoff(seconds func(n int) int) awsretry.Backoff {
	return awsretry.BackoffFunc(func(n int, _ awsretry.Class, _ time.Duration) time.Duration {
		return time.Duration(seconds(n)) * time.Second
	})
}

func TestUntil(t *testing.T) {
	other := errors.New("other")
	for _, tt := range []struct {
		name     string
		config   poll.Config
		timeout  time.Duration // of the context; 0: none
		outcomes []outcome
		asked    []time.Duration // in milliseconds
		is       []error         // in the error; none: the error is nil
		state    poll.State
		text     string // of the error; "": any
	}{
		{name: "the three states that do not end it",
			outcomes: []outcome{notReady, throttled, serverError, done}, asked: []time.Duration{100, 300, 700, 1500}},
		{name: "delays are capped at 20 s", config: poll.Config{MaxAttempts: 11}, outcomes: []outcome{notReady},
			asked: []time.Duration{100, 300, 700, 1500, 3100, 6300, 12700, 25500, 45500, 65500, 85500},
			is:    []error{poll.ErrMaxAttempts}, state: poll.NotReady},
		{name: "an error with Done ends it",
			outcomes: []outcome{{poll.NotReady, other}, {poll.Done, errBoom}},
			asked:    []time.Duration{100, 300}, is: []error{errBoom}, text: "boom"}, // itself
		{name: "an error with another state does not end it, and is dropped when it is done",
			outcomes: []outcome{{poll.ServerError, errBoom}, {poll.Throttled, errBoom}, {poll.NotReady, errBoom}, done},
			asked:    []time.Duration{100, 300, 700, 1500}},
		{name: "the last error is in the Error", config: poll.Config{MaxAttempts: 3},
			outcomes: []outcome{{poll.ServerError, other}, {poll.Throttled, errBoom}, notReady},
			asked:    []time.Duration{100, 300, 700}, is: []error{poll.ErrMaxAttempts, errBoom}, state: poll.NotReady},
		{name: "the context ends in a delay", timeout: time.Second, outcomes: []outcome{{poll.ServerError, errBoom}},
			asked: []time.Duration{100, 300, 700}, is: []error{context.DeadlineExceeded, errBoom},
			state: poll.ServerError},
		{name: "the context ends in the first delay", timeout: 50 * ms, outcomes: []outcome{done},
			is: []error{context.DeadlineExceeded}},
		{name: "an undefined state", outcomes: []outcome{{poll.NotReady, errBoom}, {poll.State(42), nil}},
			asked: []time.Duration{100, 300}, is: []error{errBoom}, state: 42,
			text: "poll: gave up after 2 attempts: check returned State(42), which is not a state; " +
				"it must be Done, NotReady, Throttled or ServerError; " +
				"the last state was State(42); the last error was: boom"},
		{name: "a negative state", outcomes: []outcome{{poll.State(-1), errBoom}},
			asked: []time.Duration{100}, is: []error{errBoom}, state: -1},
		{name: "another Backoff, of which a negative delay counts as 0",
			config:   poll.Config{Backoff: backoff(func(n int) int { return n - 1 })},
			outcomes: []outcome{notReady, notReady, notReady, done}, asked: []time.Duration{0, 0, 1000, 3000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				start := time.Now()
				var want, asked []time.Duration
				for _, at := range tt.asked {
					want = append(want, at*ms)
				}
				err := poll.Until(ctx, tt.config, script(&asked, tt.outcomes...))
				took, ends := time.Since(start), tt.timeout
				if ends == 0 {
					ends = want[len(want)-1]
				}
				if diff := cmp.Diff(want, asked); diff != "" || took != ends {
					t.Errorf("took %v, want %v; asked (-want +got):\n%s", took, ends, diff)
				}
				if (err != nil) != (len(tt.is) > 0) {
					t.Fatalf("got error %v, want %v", err, tt.is)
				}
				for _, want := range tt.is {
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v in it", err, want)
					}
				}
				if tt.text != "" && err.Error() != tt.text {
					t.Errorf("got  %v\nwant %s", err, tt.text)
				}
				var e *poll.Error
				if errors.As(err, &e) && (e.State != tt.state || e.Attempts != len(asked)) {
					t.Errorf("got %+v, want state %v and %d attempts", e, tt.state, len(asked))
				}
			})
		})
	}
}

func TestContextEnds(t *testing.T) {
	why := errors.New("the user went home")
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		var asked []time.Duration
		zero := poll.Config{Backoff: backoff(func(int) int { return 0 })}
		err := poll.Until(ctx, zero, script(&asked, done))
		if len(asked) > 0 || !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v after %d checks, want none, and the cause and context.Canceled", err, len(asked))
		}
	})
	for state, want := range map[poll.State]error{poll.Done: nil, poll.NotReady: why} {
		t.Run("while a check ignores it and returns "+state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				running := false
				start := time.Now()
				err := poll.Until(ctx, poll.Config{MaxAttempts: 1}, func(ctx context.Context) (poll.State, error) {
					running = true
					defer func() { running = false }()
					cancel(why)
					if context.Cause(ctx) != why {
						t.Error("the check has another context")
					}
					time.Sleep(time.Hour)
					return state, nil
				})
				if took := time.Since(start); running || took != time.Hour+100*ms {
					t.Errorf("returned after %v, while the check runs: %v", took, running)
				}
				if !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		})
	}
}

// A panic reaches the caller, and no goroutine goes on, or synctest.Test would
// fail.
func TestPanics(t *testing.T) {
	for name, config := range map[string]poll.Config{
		"check":   {},
		"Observe": {Observe: func(poll.Attempt) { panic("boom") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer func() {
					if p := recover(); p != "boom" {
						t.Errorf("recovered %v, want boom", p)
					}
				}()
				poll.Until(t.Context(), config, func(context.Context) (poll.State, error) {
					if name == "check" {
						panic("boom")
					}
					return poll.NotReady, nil
				})
				t.Error("no panic")
			})
		})
	}
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []poll.Attempt
		outcomes := []outcome{notReady, {poll.Throttled, errBoom}, done}
		err := poll.Until(t.Context(), poll.Config{Observe: func(a poll.Attempt) { got = append(got, a) }},
			func(context.Context) (poll.State, error) {
				time.Sleep(7 * ms)
				a := outcomes[len(got)]
				return a.state, a.err
			})
		want := []poll.Attempt{
			{Number: 1, Waited: 100 * ms, Elapsed: 7 * ms, State: poll.NotReady, Delay: 200 * ms},
			{Number: 2, Waited: 200 * ms, Elapsed: 7 * ms, State: poll.Throttled, Err: errBoom, Delay: 400 * ms},
			{Number: 3, Waited: 400 * ms, Elapsed: 7 * ms, State: poll.Done, Last: true},
		}
		sameError := cmp.Comparer(func(a, b error) bool { return a == b })
		if diff := cmp.Diff(want, got, sameError); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestBackoffGetsTheStates(t *testing.T) {
	type call struct {
		N     int
		Class awsretry.Class
		Last  time.Duration
	}
	synctest.Test(t, func(t *testing.T) {
		var got []call
		backoff := awsretry.BackoffFunc(func(n int, class awsretry.Class, last time.Duration) time.Duration {
			got = append(got, call{n, class, last})
			return time.Duration(n+1) * time.Second
		})
		var asked []time.Duration
		err := poll.Until(t.Context(), poll.Config{Backoff: backoff},
			script(&asked, notReady, throttled, serverError, done))
		want := []call{
			{0, awsretry.Success, 0},
			{1, awsretry.Success, time.Second},
			{2, awsretry.Throttled, 2 * time.Second},
			{3, awsretry.Transient, 3 * time.Second},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestInvalidConfig(t *testing.T) {
	check := func(context.Context) (poll.State, error) { t.Error("checked"); return poll.Done, nil }
	for _, test := range []struct {
		name   string
		config poll.Config
		check  func(context.Context) (poll.State, error)
		want   string
	}{
		{"no check", poll.Config{}, nil, "poll: check is nil; it must be a function"},
		{"MaxAttempts", poll.Config{MaxAttempts: -1}, check, "poll: Config.MaxAttempts is -1; it must be above 0"},
		{"Backoff.Factor", poll.Config{Backoff: awsretry.Exponential{Factor: math.NaN()}}, check,
			"poll: Config.Backoff.Factor is NaN; it must be a number from 1 up"},
		{"Backoff.Initial", poll.Config{Backoff: awsretry.Exponential{Initial: -1}}, check,
			"poll: Config.Backoff.Initial is -1ns"},
		{"a nil Backoff", poll.Config{Backoff: awsretry.BackoffFunc(nil)}, check, "poll: Config.Backoff is a nil "},
	} {
		err := poll.Until(t.Context(), test.config, test.check)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestStateString(t *testing.T) {
	for state, want := range map[poll.State]string{
		poll.Done: "done", poll.NotReady: "not ready", poll.Throttled: "throttled", poll.ServerError: "server error",
		7: "State(7)",
	} {
		if got := state.String(); got != want {
			t.Errorf("State %d: got %q, want %q", int(state), got, want)
		}
	}
}
