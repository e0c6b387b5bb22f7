package awsretry_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

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

func TestPartitionNames(t *testing.T) {
	byPath := func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") }
	with := func(name string) context.Context { return awsretry.WithPartition(t.Context(), name) }
	for _, tt := range []struct {
		name      string
		partition func(*http.Request) string
		ctx       context.Context
		url       string
		want      string
	}{
		{"host", nil, t.Context(), "http://one.example/x", "one.example"},
		{"host with port", nil, t.Context(), "http://one.example:8080/x", "one.example:8080"},
		{"host in capitals", nil, t.Context(), "http://One.EXAMPLE/x", "one.example"},
		{"user is left out", nil, t.Context(), "http://user:secret@one.example/x", "one.example"},
		{"function", byPath, t.Context(), "http://one.example/table", "table"},
		{"context", byPath, with("mine"), "http://one.example/table", "mine"},
		{"context in capitals", nil, with("ONE.example"), "http://one.example/", "ONE.example"},
		{"empty in the context", byPath, with(""), "http://one.example/table", ""},
		{"inner context", nil, awsretry.WithPartition(with("outer"), "inner"), "http://one.example", "inner"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(tt.ctx, "GET", tt.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			tr := &awsretry.Transport{Base: httpfake.Statuses(200), Partition: tt.partition}
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
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
	for _, ctx := range []context.Context{t.Context(), awsretry.WithPartition(t.Context(), "SERVICE.example")} {
		for _, host := range []string{"SERVICE.example", "Service.Example", "service.example"} {
			req := httpfake.Request(t, ctx, "GET", nil)
			req.URL.Host = host
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := names(tr); !slices.Equal(got, []string{"SERVICE.example", "service.example"}) {
		t.Errorf("%q", got)
	}
}

// A name of any length costs no more than 255 bytes of memory. Its partition is
// found by that name, and by the one that is listed.
func TestLongPartitionNames(t *testing.T) {
	long := strings.Repeat("Long.", 200_000)
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	for _, host := range []string{long + "1", long + "2"} {
		var seen string
		observed := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { seen = a.Partition })
		for _, ctx := range []context.Context{observed, t.Context(), awsretry.WithPartition(t.Context(), host)} {
			req := httpfake.Request(t, ctx, "GET", nil)
			req.URL.Host = host
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := tr.State(strings.ToLower(host)); !ok {
			t.Error("the host's partition is not found")
		}
		if _, ok := tr.State(host); !ok {
			t.Error("the named partition is not found")
		}
		if _, ok := tr.State(seen); !ok || len(seen) != 255 || !strings.HasPrefix(seen, "long.long.") {
			t.Errorf("the record names %q", seen)
		}
	}
	all := names(tr)
	for _, name := range all {
		if _, ok := tr.State(name); !ok || len(name) > 255 {
			t.Errorf("%q is listed", name)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d partitions, want 4", len(all))
	}
}

func TestLeastRecentlyUsedPartitionIsDropped(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200), MaxPartitions: 2}
	for _, step := range []struct {
		use  string
		want []string
	}{
		{"a", []string{"a"}},
		{"b", []string{"b", "a"}},
		{"a", []string{"a", "b"}},
		{"c", []string{"c", "a"}},
		{"c", []string{"c", "a"}},
		{"d", []string{"d", "c"}},
	} {
		ctx := awsretry.WithPartition(t.Context(), step.use)
		if _, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, names(tr)); diff != "" {
			t.Fatalf("after %q (-want +got):\n%s", step.use, diff)
		}
	}
	if _, ok := tr.State("a"); ok {
		t.Error("a is still there")
	}
	for range tr.Partitions() {
		break // which ends the iteration
	}
}

func TestPartitionsAreBounded(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	for i := range 3000 {
		req := httpfake.Request(t, t.Context(), "GET", nil)
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

// Partitions are used, listed and dropped at the same time, for the race
// detector.
func TestPartitionsInParallel(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200), MaxPartitions: 8, Mode: awsretry.Adaptive}
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := range 50 {
				req := httpfake.Request(t, t.Context(), "GET", nil)
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
	all.Wait()
	if got := len(names(tr)); got != 8 {
		t.Errorf("%d partitions, want 8", got)
	}
}
