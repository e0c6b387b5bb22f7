package awsretry_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

func names(tr *awsretry.Transport) []string {
	var all []string
	for name := range tr.Partitions() {
		all = append(all, name)
	}
	return all
}

func TestPartitionNames(t *testing.T) {
	get := func(url string) *http.Request {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	byPath := func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") }
	tests := []struct {
		name      string
		partition func(*http.Request) string
		req       *http.Request
		want      string
	}{
		{"host", nil, get("http://one.example/x"), "one.example"},
		{"host with port", nil, get("http://one.example:8080/x"), "one.example:8080"},
		{"host in capitals", nil, get("http://One.EXAMPLE/x"), "one.example"},
		{"user is left out", nil, get("http://user:secret@one.example/x"), "one.example"},
		{"function", byPath, get("http://one.example/table"), "table"},
		{"context", byPath, get("http://one.example/table").WithContext(awsretry.WithPartition(t.Context(), "mine")), "mine"},
		{"empty in the context", byPath, get("http://one.example/table").WithContext(awsretry.WithPartition(t.Context(), "")), ""},
		{"inner context", nil, get("http://one.example").WithContext(awsretry.WithPartition(awsretry.WithPartition(t.Context(), "outer"), "inner")), "inner"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := &awsretry.Transport{Base: answering(200), Partition: tt.partition}
			if _, err := tr.RoundTrip(tt.req); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, names(tr)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if state, ok := tr.State(tt.want); !ok || state.Tokens != 500 {
				t.Errorf("state %+v, %v", state, ok)
			}
		})
	}
}

func TestPartitionsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := awsretry.WithPartition(t.Context(), "bad")
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, Backoff: awsretry.BackoffFunc(noPause), Quota: awsretry.QuotaConfig{Capacity: 20},
			Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Table") == "bad" {
					return answer(429, ""), nil
				}
				return answer(200, ""), nil
			}),
		}
		for range 3 {
			req := newRequest(t, "GET", nil).WithContext(bad)
			req.Header.Set("Table", "bad")
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}
		if state, _ := tr.State("bad"); state.Tokens != 0 || !state.Limited {
			t.Errorf("the throttled partition: %+v", state)
		}
		start := time.Now()
		for range 1000 {
			if resp, err := get(t, tr); err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
		}
		if state, _ := tr.State("service.example"); state.Tokens != 20 || state.Limited || time.Since(start) != 0 {
			t.Errorf("the other partition: %+v after %v", state, time.Since(start))
		}
	})
}

func TestLeastRecentlyUsedPartitionGoesFirst(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200), MaxPartitions: 2}
	use := func(name string) {
		t.Helper()
		if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(awsretry.WithPartition(t.Context(), name))); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		use  string
		want []string
	}{
		{"a", []string{"a"}},
		{"b", []string{"b", "a"}},
		{"a", []string{"a", "b"}},
		{"c", []string{"c", "a"}},
		{"c", []string{"c", "a"}},
		{"d", []string{"d", "c"}},
	}
	for _, step := range steps {
		use(step.use)
		if diff := cmp.Diff(step.want, names(tr)); diff != "" {
			t.Fatalf("after %q (-want +got):\n%s", step.use, diff)
		}
	}
	if _, ok := tr.State("a"); ok {
		t.Error("a is still there")
	}
	for range tr.Partitions() {
		break
	}
}

func TestPartitionsAreBounded(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200)}
	for i := range 3000 {
		req := newRequest(t, "GET", nil)
		req.URL.Host = fmt.Sprint("host", i)
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(names(tr)); got != 1024 {
		t.Errorf("%d partitions, want 1024", got)
	}
}

func TestNoPartitionsBeforeTheFirstRequest(t *testing.T) {
	var tr awsretry.Transport
	if _, ok := tr.State("x"); ok || len(names(&tr)) != 0 {
		t.Error("there are some")
	}
}

func TestPartitionsInParallel(t *testing.T) {
	tr := &awsretry.Transport{Base: sequence(200), MaxPartitions: 8, Mode: awsretry.Adaptive}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 50 {
				req := newRequest(t, "GET", nil)
				req.URL.Host = fmt.Sprint("host", (g+i)%16)
				if _, err := tr.RoundTrip(req); err != nil {
					t.Error(err)
				}
				for name, state := range tr.Partitions() {
					if state.Tokens != 500 {
						t.Errorf("%s: %+v", name, state)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := len(names(tr)); got != 8 {
		t.Errorf("%d partitions, want 8", got)
	}
}

func TestLookingUpAPartitionAllocatesNothing(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200)}
	one, other := newRequest(t, "GET", nil), newRequest(t, "GET", nil)
	other.URL.Host = "other.example"
	if got := testing.AllocsPerRun(1000, func() { tr.RoundTrip(one); tr.RoundTrip(other) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// The record of an attempt names its partition, to a policy, to an observer and to Outcome, after a success as after a failure.
func TestAttemptsNameTheirPartition(t *testing.T) {
	for _, statuses := range [][]int{{503, 200}, {503, 503}, {503, 404}} {
		var seen []string
		note := func(a *awsretry.Attempt) { seen = append(seen, a.Partition) }
		plain := awsretry.Transport{Base: answering(statuses...), Backoff: awsretry.BackoffFunc(noPause), MaxAttempts: 2}
		observed := awsretry.Transport{
			Base: answering(statuses...), Backoff: awsretry.BackoffFunc(noPause), MaxAttempts: 2,
			Observe: func(a awsretry.Attempt) { note(&a) },
			Policy:  func(a *awsretry.Attempt) awsretry.Class { note(a); return awsretry.DefaultPolicy(a) },
		}
		for _, tr := range []*awsretry.Transport{&plain, &observed} {
			for _, request := range []struct {
				ctx  context.Context
				want string
			}{
				{t.Context(), "service.example"},
				{awsretry.WithPartition(t.Context(), "Table"), "Table"},
			} {
				seen = nil
				resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(request.ctx))
				if err != nil {
					t.Fatal(err)
				}
				last, ok := awsretry.Outcome(resp)
				if !ok || last.Partition != request.want {
					t.Errorf("%v: Outcome says %q, %v; want %q", statuses, last.Partition, ok, request.want)
				}
				want := slices.Repeat([]string{request.want}, len(seen))
				if tr == &observed && len(seen) != 4 || !slices.Equal(seen, want) {
					t.Errorf("%v: seen are %q, want %q each time", statuses, seen, request.want)
				}
			}
		}
	}
}
