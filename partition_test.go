package awsretry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// names returns the partitions of tr, the last used one first.
func names(tr *awsretry.Transport) []string {
	var all []string
	for name := range tr.Partitions() {
		all = append(all, name)
	}
	return all
}

// sendTo sends a request for /path to a host, with a password in its URL.
func sendTo(t *testing.T, tr *awsretry.Transport, ctx context.Context, host string) {
	t.Helper()
	req := httpfake.Request(t, ctx, "GET", nil)
	req.URL.Host, req.URL.User = host, url.UserPassword("me", "secret")
	if _, err := tr.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
}

func TestPartitionNames(t *testing.T) {
	byPath := func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") }
	with := func(name string) context.Context { return awsretry.WithPartition(t.Context(), name) }
	for _, tt := range []struct {
		name      string
		partition func(*http.Request) string
		ctx       context.Context
		host      string
		want      string
	}{
		{"host", nil, t.Context(), "one.example", "one.example"},
		{"host with port", nil, t.Context(), "one.example:8080", "one.example:8080"},
		{"host in capitals", nil, t.Context(), "One.EXAMPLE", "one.example"},
		{"function", byPath, t.Context(), "one.example", "path"},
		{"context", byPath, with("mine"), "one.example", "mine"},
		{"context in capitals", nil, with("ONE.example"), "one.example", "ONE.example"},
		{"empty in the context", byPath, with(""), "one.example", ""},
		{"inner context", nil, awsretry.WithPartition(with("outer"), "inner"), "one.example", "inner"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := &awsretry.Transport{Base: httpfake.Statuses(200), Partition: tt.partition}
			sendTo(t, tr, tt.ctx, tt.host)
			if diff := cmp.Diff([]string{tt.want}, names(tr)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if state, ok := tr.State(tt.want); !ok || state.Tokens != 500 {
				t.Errorf("%+v, %v", state, ok)
			}
		})
	}
}

// The host in any letter case is one partition, and a name from the context
// that looks like it is another.
func TestPartitionOfAHostInCapitals(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	for _, ctx := range []context.Context{awsretry.WithPartition(t.Context(), "SERVICE.example"), t.Context()} {
		for _, host := range []string{"SERVICE.example", "Service.Example", "service.example"} {
			sendTo(t, tr, ctx, host)
		}
	}
	if got := names(tr); !slices.Equal(got, []string{"service.example", "SERVICE.example"}) {
		t.Errorf("%q", got)
	}
}

// A name of any length costs no more than 255 bytes of memory. Its partition is
// found by that name, and by the one that is listed.
func TestLongPartitionNames(t *testing.T) {
	long, wide := strings.Repeat("x", 1<<20), strings.Repeat("ä世", 200)
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	seen := make(map[string]bool)
	for _, name := range []string{
		"", "a", long[:255], wide[:255], long[:256], long[:257], long, "y" + long, long + "y",
		wide, "x" + wide, "xx" + wide, "xxx" + wide, "xxxx" + wide, strings.Repeat("\x80", 1000),
	} {
		var recorded string
		ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { recorded = a.Partition })
		sendTo(t, tr, awsretry.WithPartition(ctx, name), "service.example")
		kept := names(tr)[0]
		if seen[kept] || len(kept) > 255 || utf8.ValidString(name) && !utf8.ValidString(kept) || recorded != kept {
			t.Errorf("%.20q… is kept as %q, and recorded as %q", name, kept, recorded)
		}
		if len(name) <= 255 && kept != name ||
			utf8.ValidString(name) && kept[:min(len(kept), 187)] != name[:min(len(name), 187)] {
			t.Errorf("%.20q… is kept as %q", name, kept)
		}
		for _, n := range []string{name, kept} {
			if _, ok := tr.State(n); !ok {
				t.Errorf("%.20q… is not found", n)
			}
		}
		seen[kept] = true
	}
	host := strings.Repeat("Long.", 1000)
	for range 2 {
		sendTo(t, tr, t.Context(), host)
	}
	if _, ok := tr.State(strings.ToLower(host)); !ok || len(names(tr)) != len(seen)+1 {
		t.Error("a long host is not one partition")
	}
}

// A partitionTest sends requests of named partitions.
type partitionTest struct {
	*testing.T
	tr *awsretry.Transport
}

// A pending request waits for its status.
type pending struct {
	known  chan struct{}
	status int
}

type pendingKey struct{}

func newPartitionTest(t *testing.T, tr *awsretry.Transport) partitionTest {
	tr.Backoff = awsretry.Exponential{Jitter: func(time.Duration) time.Duration { return 0 }}
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		p := req.Context().Value(pendingKey{}).(*pending)
		<-p.known
		return httpfake.Response(req, p.status, http.NoBody, "Retry-After", "30"), nil
	})
	return partitionTest{t, tr}
}

// begin sends a request of a partition. It returns a function that ends the
// request with a status.
func (t partitionTest) begin(name string) (end func(status int)) {
	p, ended := &pending{known: make(chan struct{})}, make(chan bool)
	go func() {
		defer close(ended)
		ctx := context.WithValue(awsretry.WithPartition(t.Context(), name), pendingKey{}, p)
		if _, err := t.tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return func(status int) {
		p.status = status
		close(p.known)
		<-ended
	}
}

func (t partitionTest) want(when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, names(t.tr)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func (t partitionTest) wantState(name string, tokens int, limited bool) {
	t.Helper()
	if state, ok := t.tr.State(name); !ok || state.Tokens != tokens || state.Limited != limited {
		t.Errorf("%s: %+v, %v; want %d tokens, limited %v", name, state, ok, tokens, limited)
	}
}

// A partition without failures is replaced before others that were used longer
// ago. The new one takes over the retry tokens, not the limit of the send rate.
func TestReplacedPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := newPartitionTest(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, MaxPartitions: 4, MaxRetryAfter: -1,
			Quota: awsretry.QuotaConfig{RetryCost: 10, ThrottlingCost: -1, SuccessIncrement: -1, RefillPerSecond: 1e-3},
		})
		const succeeds, drains, throttles = 200, 503, 429
		for _, step := range []struct {
			name, use string
			status    int
			want      []string // the most recently used first
		}{
			{"one", "drained", drains, []string{"drained"}},
			{"two", "throttled", throttles, []string{"throttled", "drained"}},
			{"three", "full", succeeds, []string{"full", "throttled", "drained"}},
			{"four", "recent", succeeds, []string{"recent", "full", "throttled", "drained"}},
			{"the oldest one without failures", "new", succeeds, []string{"new", "recent", "throttled", "drained"}},
			{"the next", "newer", drains, []string{"newer", "new", "throttled", "drained"}},
			{"the last", "newest", drains, []string{"newest", "newer", "throttled", "drained"}},
			{"then the oldest of all", "last", succeeds, []string{"last", "newest", "newer", "throttled"}},
			{"none", "throttled", succeeds, []string{"throttled", "last", "newest", "newer"}},
		} {
			test.begin(step.use)(step.status)
			test.want(step.name, step.want...)
		}
		test.wantState("throttled", 500, true)
		test.wantState("last", 480, false)
		for _, name := range []string{"last", "newest", "newer"} {
			test.begin(name)(succeeds)
		}
		time.Sleep(20_000 * time.Second)
		test.begin("another")(succeeds)
		test.want("with all tokens back", "another", "newer", "newest", "throttled")
		for _, name := range []string{"a", "b", "c", "d"} {
			test.begin(name)(drains)
		}
		test.want("with failures in all", "d", "c", "b", "a")
		test.wantState("d", 480, false) // the bucket of throttled was full
		test.begin("e")(drains)
		test.wantState("e", 460, false)
	})
}

// A new name looks at the oldest partitions alone, whatever state they are in.
func TestNewPartitionLooksAtFew(t *testing.T) {
	const looks, size = 128, 200
	for _, drained := range []int{looks - 1, looks} {
		synctest.Test(t, func(t *testing.T) {
			test := newPartitionTest(t, &awsretry.Transport{MaxPartitions: size})
			for i := range size {
				status := 200
				if i < drained {
					status = 503
				}
				test.begin(fmt.Sprint(i))(status)
			}
			test.begin("new")(200)
			if _, ok := test.tr.State("0"); ok != (drained < looks) {
				t.Errorf("%d partitions have failures: the oldest was replaced: %v", drained, !ok)
			}
		})
	}
}

// A partition is not replaced while calls use it. If calls use all of them,
// others are extra ones, which share their buckets and end with their calls.
func TestPartitionsInUseStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := newPartitionTest(t, &awsretry.Transport{
			Mode: awsretry.Adaptive, MaxPartitions: 2,
			Quota: awsretry.QuotaConfig{InitialCost: 1, SuccessIncrement: -1},
		})
		calls := make(map[string][]func(int))
		for _, step := range []struct {
			use, end string
			want     string // names in the order of the alphabet, with their tokens
		}{
			{use: "a", want: "a499"},
			{use: "b", want: "a499 b499"},
			{use: "c", want: "a498 b499 c498"},
			{use: "d", want: "a498 b498 c498 d498"},
			{use: "e", want: "a497 b498 c497 d498 e497"},
			{use: "a", want: "a496 b498 c496 d498 e496"},
			{use: "d", want: "a496 b497 c496 d497 e496"},
			{end: "a", want: "a496 b497 c496 d497 e496"},
			{end: "d", want: "a496 b497 c496 d497 e496"},
			{end: "d", want: "a496 b497 c496 e496"},
			{end: "c", want: "a496 b497 e496"},
			{end: "a", want: "a496 b497 e496"},
			{use: "f", want: "b497 e495 f495"}, // takes over the bucket of a
			{end: "e", want: "b497 f495"},
			{end: "b", want: "b497 f495"},
			{use: "g", want: "f495 g496"},
		} {
			if step.use != "" {
				calls[step.use] = append(calls[step.use], test.begin(step.use))
			} else {
				calls[step.end][0](200)
				calls[step.end] = calls[step.end][1:]
			}
			var got []string
			for name, state := range test.tr.Partitions() {
				got = append(got, fmt.Sprint(name, state.Tokens))
			}
			slices.Sort(got)
			if got := strings.Join(got, " "); got != step.want {
				t.Fatalf("%+v: there are %s", step, got)
			}
		}
		calls["f"][0](200)
		calls["g"][0](200)
	})
}

// An extra partition that limits its requests replaces another one when it ends,
// so that it limits the next requests too.
func TestExtraPartitionThatLimits(t *testing.T) {
	for _, shareRetryAfter := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			test := newPartitionTest(t, &awsretry.Transport{
				Mode: awsretry.Adaptive, MaxPartitions: 2, MaxAttempts: 1,
				ShareRetryAfter: shareRetryAfter, RetryAfterSpread: -1,
			})
			endA, endB, endExtra := test.begin("a"), test.begin("b"), test.begin("extra")
			endB(200)
			status := 429
			if shareRetryAfter {
				status = 503
			}
			endExtra(status)
			test.want("at the end", "extra", "a")
			test.wantState("extra", 500, !shareRetryAfter)
			start := time.Now()
			test.begin("extra")(200)
			if waited := time.Since(start); shareRetryAfter != (waited == 30*time.Second) {
				t.Errorf("the next request waited %v", waited)
			}
			endA(200)
		})
	}
}

func TestPartitionsAreBounded(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	if _, ok := tr.State("host0"); ok || len(names(tr)) != 0 {
		t.Error("there are partitions before the first request")
	}
	for i := range 3000 {
		sendTo(t, tr, t.Context(), fmt.Sprint("host", i))
	}
	if got := len(names(tr)); got != 1024 {
		t.Errorf("%d partitions, want 1024", got)
	}
}
