package queue

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// Deliveries of each kind: delivered, retried, dead, listed, redriven, canceled.
func TestWork(t *testing.T) {
	t.Parallel()
	h, db, policy := newHook(t), newDB(t), clitest.File(t, "policy.json", atOnce)
	for _, path := range []string{"/ok?key=secret", "/flaky", "/gone", "/broken"} {
		succeed(t, db, "enqueue", "--policy", policy, "--key", "key"+path[:3], "-H", "Authorization: secret", h.URL+path)
	}
	vars := map[string]string{"DB": db, "URL": h.URL}
	mask := func(masked string) string {
		for pattern, with := range map[string]string{
			`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`:                     "2000-01-01 00:00:00",
			` +[\d.]+[mµn]?s  (delivered|dead|retry)`:            "      TIME  $1",
			`"(start|enqueued|ended)":"2\d{3}-\d\d-\d\dT[^"]+Z"`: `"$1":"2000-01-01T00:00:00Z"`,
			`(?m)(  \d{3})  [\d.]+[mµn]?s$`:                      "$1  TIME",
			`"elapsed_ms":[\d.]+`:                                `"elapsed_ms":1`,
		} {
			masked = regexp.MustCompile(pattern).ReplaceAllString(masked, with)
		}
		return masked
	}
	got := run(t, clitest.Shell{}, db, "work", "--workers", "1", "--until-empty")
	if got.Status != cli.HTTPError || got.Err != "" {
		t.Errorf("status %d, want 22; standard error:\n%s", got.Status, got.Err)
	}
	for _, want := range []string{
		db + ": 4 waiting, 0 dead letters\n1 attempt at a time, of 15s at most; a stop takes 20s at most",
		"  POST    200            1      TIME  delivered           " + h.URL + "/ok\n",
		"  POST    503            1      TIME  retry in 0s         " + h.URL + "/flaky\n",
		"  POST    200            2      TIME  delivered           " + h.URL + "/flaky\n",
		"  POST    400            1      TIME  dead: permanent     " + h.URL + "/gone\n",
		"  POST    503            3      TIME  dead: max_attempts  " + h.URL + "/broken\n",
		"\n✗ 2 delivered, 2 new dead letters, 3 retries; in the store: 0 waiting, 2 dead letters\n",
	} {
		if !strings.Contains(mask(got.Out), want) {
			t.Errorf("%q is not in\n%s", want, mask(got.Out))
		}
	}
	clitest.Shell{Mask: mask}.Transcript(t, "worked.txt", vars, Commands...)

	terminal := clitest.Shell{Terminals: []string{"stdout", "stderr"}, Width: 60}
	got = run(t, terminal, db, "work", "--json", "--until-empty")
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	var first struct {
		Key    string   `json:"idempotency_key"`
		Status int      `json:"status"`
		Delay  *float64 `json:"delay_ms"`
	}
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 4 || got.Err != "" ||
		first.Key != "key/br" || first.Status != 503 || first.Delay == nil {
		t.Errorf("%v, %+v:\n%s%s", err, first, got.Out, got.Err)
	}
	const sum = `{"delivered":0,"new_dead":1,"retries":2,` +
		`"store":{"waiting":0,"running":0,"delivered":2,"dead":1,"canceled":1},"interrupted":false}`
	if got.Status != cli.HTTPError || lines[len(lines)-1] != sum {
		t.Errorf("status %d, %s, want 22 and %s", got.Status, lines[len(lines)-1], sum)
	}
	if strings.Contains(got.Out, "secret") {
		t.Errorf("a secret is shown:\n%s", got.Out)
	}
}

// Ctrl-C lets an attempt end on its own, within --stop-timeout.
func TestWorkIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		hangs  bool
		status int
		state  string
		out    string
	}{
		{"graceful", nil, false, 0, "delivered",
			"\n✓ 1 delivered, 0 new dead letters, 0 retries; in the store: 0 waiting, "},
		{"before it is empty", []string{"--until-empty"}, false, cli.Interrupted, "delivered",
			"\n✗ interrupted: 1 delivered, "},
		{"cut off", []string{"--stop-timeout", "100ms"}, true, cli.Interrupted, "waiting",
			"; attempts were not finished within --stop-timeout, 100ms, and were cut off\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			stopping := make(chan struct{})
			stderr := clitest.NewWatch("end on their own, within", func() { close(stopping) })
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-stopping
				if c.hangs {
					<-r.Context().Done()
				}
			}))
			defer s.Close()
			db := newDB(t)
			succeed(t, db, "enqueue", s.URL)
			shell := clitest.Shell{Err: stderr, Terminals: []string{"stderr"}}
			got := shell.RunProgram(ctx, t, program, append([]string{"work", "--db", db, "--allow-private"}, c.args...)...)
			if got.Status != c.status || !strings.Contains(got.Out, c.out) {
				t.Errorf("%+v, want status %d and %q", got, c.status, c.out)
			}
			if e := entries(t, db); e[0].State != c.state {
				t.Errorf("%+v, want %s", e[0], c.state)
			}
			if text := stderr.String(); !strings.HasSuffix(text, "\x1b[2K\r") {
				t.Errorf("the bar is not removed: %q", text)
			}
		})
	}
}

// Without --allow-private, a delivery to an address that is not public is a
// dead letter that says why.
func TestPrivateAddress(t *testing.T) {
	t.Parallel()
	h, db := newHook(t), newDB(t)
	succeed(t, db, "enqueue", strings.Replace(h.URL, "127.0.0.1", "localhost", 1))
	got := clitest.Shell{}.RunProgram(t.Context(), t, program, "work", "--db", db, "--until-empty")
	if got.Status != cli.HTTPError || !strings.Contains(got.Out, "dead: permanent") {
		t.Errorf("%+v", got)
	}
	if e := entries(t, db); !strings.HasSuffix(e[0].Error, " (loopback) is not a public address") || len(h.requests) > 0 {
		t.Errorf("%+v; %d requests", e[0], len(h.requests))
	}
}
