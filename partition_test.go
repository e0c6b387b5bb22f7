package awsretry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
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
		partition func(*http.Request) string
		ctx       context.Context
		host      string
		want      string
	}{
		{nil, t.Context(), "one.example:8080", "one.example:8080"},
		{byPath, t.Context(), "one.example", "path"},
		{byPath, with("mine"), "one.example", "mine"},
		{byPath, with(""), "one.example", ""},
		{nil, awsretry.WithPartition(with("outer"), "inner"), "one.example", "inner"},
	} {
		tr := &awsretry.Transport{Base: httpfake.Statuses(200), Partition: tt.partition}
		sendTo(t, tr, tt.ctx, tt.host)
		if diff := cmp.Diff([]string{tt.want}, names(tr)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if state, ok := tr.State(tt.want); !ok || state.Tokens != 500 {
			t.Errorf("%s: %+v, %v", tt.want, state, ok)
		}
	}
}

// The host in any letter case is one partition, and a name from the context
// that looks like it is another.
func TestPartitionOfAHostInCapitals(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	for _, ctx := range []context.Context{awsretry.WithPartition(t.Context(), "SERVICE.example"), t.Context()} {
		for _, host := range []string{"SERVICE.example", "Service.Example"} {
			sendTo(t, tr, ctx, host)
		}
	}
	if got := names(tr); !slices.Equal(got, []string{"service.example", "SERVICE.example"}) {
		t.Errorf("%q", got)
	}
}

// A name of any length costs no more than 255 bytes of memory. Its partition is
// found by that name, and by the one that is listed and recorded.
func TestLongPartitionNames(t *testing.T) {
	long, wide := strings.Repeat("x", 1<<20), strings.Repeat("ä世", 200)
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	var recorded string
	ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { recorded = a.Partition })
	seen := make(map[string]bool)
	for _, name := range []string{"", long[:255], long[:256], long, wide, "x" + wide, strings.Repeat("\x80", 1000)} {
		sendTo(t, tr, awsretry.WithPartition(ctx, name), "service.example")
		kept := names(tr)[0]
		if seen[kept] || len(kept) > 255 || len(name) <= 255 && kept != name || recorded != kept ||
			utf8.ValidString(name) && (!utf8.ValidString(kept) || !strings.HasPrefix(name, kept[:min(len(kept), 187)])) {
			t.Errorf("%.20q… is kept as %q, and recorded as %q", name, kept, recorded)
		}
		_, byName := tr.State(name)
		if _, byKept := tr.State(kept); !byName || !byKept {
			t.Errorf("%.20q… is not found", name)
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

func TestPartitionsAreBounded(t *testing.T) {
	tr := &awsretry.Transport{Base: httpfake.Statuses(200)}
	if _, ok := tr.State("host0"); ok || len(names(tr)) != 0 {
		t.Error("there are partitions before the first request")
	}
	for i := range 1100 {
		sendTo(t, tr, t.Context(), fmt.Sprint("host", i))
	}
	if _, ok := tr.State("host0"); ok || len(names(tr)) != 1024 {
		t.Errorf("%d partitions, want 1024 without the first", len(names(tr)))
	}
}
