// Package vectors reads examples of the AWS documents and test cases of the AWS
// SDKs, and compares what a retry loop does with them.
package vectors

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Vector is one call, or several calls with the same buckets, of
// testdata/vectors/retry.json: an example of the AWS documents, or a test case
// of the AWS SDKs, without jitter.
type Vector struct {
	Name        string
	Source      string // where the AWS SDKs publish it, or "derived" from their rules
	Mode        string // an awsretry.Mode
	Revision    int    // an awsretry.Revision
	MaxAttempts int
	MaxBackoff  Duration // 0 means the default
	Capacity    int
	Target      string
	Call
	Calls      []Call // in place of the one call
	Concurrent bool   // the Calls begin at the same time
	Left       int    // tokens after concurrent calls
}

// A Call is one call of a Vector.
type Call struct {
	Answers []struct {
		Status int
		Header map[string]string
	}
	Waited Duration   // for a send token, before the first attempt
	Pauses []Duration // before each retry
	End    Duration   // of a long poll, before its response is returned
	Tokens []int      // after each decision; nil means any
	Stop   string
	Status int
}

// A Duration is one that JSON has as a string.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

func (d Duration) String() string { return time.Duration(d).String() }

// A Trace is what was seen of a call.
type Trace struct {
	Start  time.Time
	Sent   []time.Time
	Tokens []int // after each decision
	Stop   string
}

// Read returns the vectors of a file.
func Read(t *testing.T, name string) []Vector {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []Vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

// Test makes the calls of v with play, and compares what was seen of them. It
// calls tokens for what is left in the retry token bucket at the end.
func (v Vector) Test(t *testing.T, play func(Call) Trace, tokens func() int) {
	var calls sync.WaitGroup
	for _, c := range v.Calls {
		if v.Concurrent {
			calls.Go(func() { c.compare(t, play(c)) })
		} else {
			c.compare(t, play(c))
		}
	}
	if v.Calls == nil {
		v.compare(t, play(v.Call))
	}
	calls.Wait()
	if got := tokens(); v.Concurrent && got != v.Left {
		t.Errorf("%d tokens left, want %d", got, v.Left)
	}
}

func (c Call) compare(t *testing.T, got Trace) {
	ended := time.Now()
	if len(got.Sent) != len(c.Answers) {
		t.Errorf("%d attempts, want %d", len(got.Sent), len(c.Answers))
		return
	}
	want := slices.Concat([]Duration{c.Waited}, c.Pauses, []Duration{c.End})
	var delays []Duration
	last := got.Start
	for _, at := range append(got.Sent, ended) {
		delays = append(delays, Duration(at.Sub(last)))
		last = at
	}
	if !slices.Equal(delays, want) {
		t.Errorf("delays %v, want %v", delays, want)
	}
	if c.Tokens != nil && !slices.Equal(got.Tokens, c.Tokens) {
		t.Errorf("tokens %v, want %v", got.Tokens, c.Tokens)
	}
	if got.Stop != c.Stop {
		t.Errorf("stop %q, want %q", got.Stop, c.Stop)
	}
}
