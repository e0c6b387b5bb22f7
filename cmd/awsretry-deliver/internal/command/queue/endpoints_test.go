package queue

import (
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// An endpoint is paused, resumed and listed, and so are its attempts.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	h, db := newHook(t), newDB(t)
	entry := func() endpointEntry {
		t.Helper()
		all := decoded[endpointEntry](t, succeed(t, db, "endpoints", "--json"))
		if len(all) != 1 || all[0].URL != h.URL {
			t.Fatalf("the endpoints are %+v", all)
		}
		return all[0]
	}
	print := func(want string, args ...string) {
		t.Helper()
		if out := succeed(t, db, args...); !strings.HasSuffix(out, want) {
			t.Errorf("%q prints\n%s\nwant %q", args, out, want)
		}
	}
	succeed(t, db, "enqueue", h.URL+"/gone")
	print("✓ "+h.URL+": paused\n", "pause", h.URL)
	if e := entry(); e.Waiting != 1 || e.Due == nil || e.Paused == nil || e.Failing != nil {
		t.Errorf("%+v", e)
	}
	if out := succeed(t, db, "endpoints"); !strings.Contains(out, "  paused    2") || !strings.HasSuffix(out, h.URL+"\n") {
		t.Errorf("endpoints prints\n%s", out)
	}
	print("✓ "+h.URL+": resumed\n", "resume", h.URL)
	args := []string{"work", "--until-empty", "--disable-after", "1h", "--per-endpoint", "1", "--retry-timeouts"}
	if got := run(t, clitest.Shell{}, db, args...); got.Status != cli.HTTPError {
		t.Errorf("%+v", got)
	}
	if e := entry(); e.Waiting != 0 || e.Dead != 1 || e.Paused != nil || e.Failing == nil || e.Disabled != nil {
		t.Errorf("%+v", e)
	}
	if out := succeed(t, db, "list", "1"); !strings.Contains(out, "  400  ") || !strings.Contains(out, "  no such hook\n") {
		t.Errorf("list 1 prints\n%s", out)
	}
	print("✓ 1 delivery canceled\n", "cancel", "--endpoint", h.URL)
	if e := entry(); e.Dead != 0 {
		t.Errorf("%+v", e)
	}
	succeed(t, db, "resume", h.URL)
	print("No endpoints in "+db+"\n", "endpoints")
	if got := run(t, clitest.Shell{}, db, "resume", h.URL); got.Status != cli.Failure || !strings.Contains(got.Err, "not paused") {
		t.Errorf("%+v", got)
	}
	print("✓ "+h.URL+": 5 attempts per second\n", "throttle", "--per-second", "5", h.URL)
	if e := entry(); e.PerSecond != 5 {
		t.Errorf("%+v", e)
	}
	print("✓ "+h.URL+": no limit\n", "throttle", h.URL)
	succeed(t, db, "enqueue", "--endpoint", "a customer", h.URL)
	if out := succeed(t, db, "list", "--endpoint", "a customer"); !strings.Contains(out, h.URL) {
		t.Errorf("list prints\n%s", out)
	}
}

// A disabled endpoint causes a warning.
func TestDisabledIsPrinted(t *testing.T) {
	t.Parallel()
	h, db := newHook(t), newDB(t)
	succeed(t, db, "enqueue", h.URL+"/gone")
	got := run(t, clitest.Shell{}, db, "work", "--until-empty", "--disable-after", "1ns", "--workers", "1")
	if want := "warning: an endpoint is disabled: endpoint " + h.URL + "\n"; !strings.Contains(got.Err, want) {
		t.Errorf("standard error is\n%s\nwant %q", got.Err, want)
	}
}
