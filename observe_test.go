package awsretry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

func logged(level slog.Level, tr *awsretry.Transport, req *http.Request) []string {
	var out bytes.Buffer
	tr.Observe = awsretry.LogTo(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	if tr.Backoff == nil {
		awsretry.WithoutJitter(tr)
	}
	tr.RoundTrip(req)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestLogTo(t *testing.T) {
	secret := func() *http.Request {
		req := newRequest(t, "PUT", nil)
		req.URL.RawQuery, req.URL.User, req.URL.Fragment = "sig=secret", url.UserPassword("me", "secret"), "secret"
		return req
	}
	throttled := roundTripper(func(*http.Request) (*http.Response, error) {
		resp := answer(400, "")
		resp.Header.Set("X-Amzn-ErrorType", "ThrottlingException")
		return resp, nil
	})
	tests := []struct {
		name  string
		level slog.Level
		tr    *awsretry.Transport
		want  []string
	}{
		{"retries", slog.LevelDebug, &awsretry.Transport{Base: sequence(500, 503, 200)}, []string{
			"level=DEBUG msg=retrying method=PUT url=http://service.example/path attempt=1 class=transient status=500 elapsed=0s delay=1s",
			"level=DEBUG msg=retrying method=PUT url=http://service.example/path attempt=2 class=transient status=503 elapsed=0s delay=2s",
		}},
		{"giving up", slog.LevelInfo, &awsretry.Transport{Base: throttled, MaxAttempts: 2}, []string{
			"level=WARN msg=\"gave up\" method=PUT url=http://service.example/path attempt=2 class=throttled status=400 code=ThrottlingException elapsed=0s stop=max_attempts",
		}},
		{"an error", slog.LevelInfo, &awsretry.Transport{Base: failing(&url.Error{Op: "Put", URL: "http://service.example/path?sig=secret", Err: io.EOF}), MaxAttempts: 1}, []string{
			"level=WARN msg=\"gave up\" method=PUT url=http://service.example/path attempt=1 class=transient error=\"Put \\\"http://service.example/path?…\\\": EOF\" elapsed=0s stop=max_attempts",
		}},
		{"nothing to say", slog.LevelDebug, &awsretry.Transport{Base: sequence(404)}, []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := logged(tt.level, tt.tr, secret())
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestObserversInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		note := func(who string) func(awsretry.Attempt) {
			return func(a awsretry.Attempt) {
				stop := string(a.Stop)
				if stop == "" {
					stop = a.Delay.String()
				}
				got = append(got, who+" "+stop)
			}
		}
		tr := &awsretry.Transport{Base: sequence(503, 200), Observe: note("transport")}
		awsretry.WithoutJitter(tr)
		ctx := awsretry.WithObserver(awsretry.WithObserver(t.Context(), note("outer")), note("inner"))
		ctx = awsretry.WithObserver(ctx, nil)
		if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx)); err != nil {
			t.Fatal(err)
		}
		want := []string{"transport 1s", "outer 1s", "inner 1s", "transport success", "outer success", "inner success"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestObservedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		n := 0
		tr := &awsretry.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) {
			n++
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
			return answer(503, ""), nil
		})}
		awsretry.WithoutJitter(tr)
		var got []string
		ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) {
			got = append(got, a.Start.Sub(start).String()+" "+a.Elapsed.String())
		})
		if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(ctx)); err != nil {
			t.Fatal(err)
		}
		want := []string{"0s 100ms", "1.1s 200ms", "3.3s 300ms"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestAttemptNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		tr := &awsretry.Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			got = append(got, awsretry.AttemptNumber(req.Context()))
			resp := answer(503, "")
			resp.Request = req
			return resp, nil
		})}
		resp, err := get(t, tr)
		if err != nil {
			t.Fatal(err)
		}
		// A request that goes on with an answer's context is a new one.
		if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(resp.Request.Context())); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 1, 2, 3}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := awsretry.AttemptNumber(context.Background()); n != 1 {
			t.Errorf("outside of an attempt: %d", n)
		}
	})
}

func TestOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		follow := awsretry.Transport{Base: sequence(200)}
		tests := []struct {
			name string
			base roundTripper
			want bool
		}{
			{"first try", sequence(200), false},
			{"permanent", sequence(404), true},
			{"retried", sequence(503, 200), true},
			{"given up", sequence(503), true},
		}
		for _, tt := range tests {
			resp, err := get(t, &awsretry.Transport{Base: tt.base})
			if err != nil {
				t.Fatal(err)
			}
			outcome, ok := awsretry.Outcome(resp)
			if ok != tt.want || ok && outcome.Response != resp {
				t.Errorf("%s: %+v, %v", tt.name, outcome, ok)
			}
			if !ok {
				continue
			}
			next, err := follow.RoundTrip(newRequest(t, "GET", nil).WithContext(resp.Request.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := awsretry.Outcome(next); ok {
				t.Errorf("%s: the outcome stayed in the context", tt.name)
			}
		}
		if _, ok := awsretry.Outcome(nil); ok {
			t.Error("of nil")
		}
		if _, ok := awsretry.Outcome(&http.Response{}); ok {
			t.Error("of a stranger's")
		}
	})
}

func TestOutcomeThroughAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := http.Client{Transport: &awsretry.Transport{Base: sequence(503, 200)}, Timeout: time.Minute}
		resp, err := client.Do(newRequest(t, "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if outcome, ok := awsretry.Outcome(resp); !ok || outcome.Number != 2 {
			t.Errorf("outcome %+v, %v", outcome, ok)
		}
	})
}

func TestLogToNil(t *testing.T) {
	before, output, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(output) // which SetDefault set too
		log.SetFlags(flags)
	}()
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	tr := &awsretry.Transport{Base: answering(503), MaxAttempts: 1, Observe: awsretry.LogTo(nil)}
	if _, err := get(t, tr); err != nil || !strings.Contains(out.String(), "gave up") {
		t.Errorf("%v; logged: %q", err, out.String())
	}
}

// TestLogOfAHostileServer: nothing that a server sent reaches the log with
// control characters in it, whatever the handler escapes.
func TestLogOfAHostileServer(t *testing.T) {
	var text, json strings.Builder
	for _, h := range []slog.Handler{
		slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}),
		slog.NewJSONHandler(&json, &slog.HandlerOptions{Level: slog.LevelDebug}),
	} {
		log := awsretry.LogTo(slog.New(h))
		req := request(t, t.Context(), "GET", nil)
		log(awsretry.Attempt{Request: req, Number: 1, Code: "Slow\u009b2JDown\x7f\x1b", Class: awsretry.Throttled})
		log(awsretry.Attempt{Request: req, Number: 2, Err: errors.New("malformed \u009b31m\x7f\xff answer"), Class: awsretry.Transient, Stop: awsretry.StopMaxAttempts})
	}
	for name, log := range map[string]string{"text": text.String(), "json": json.String()} {
		if strings.Count(log, "\n") != 2 || strings.ContainsFunc(log, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			t.Errorf("%s: %q", name, log)
		}
	}
}

// TestObserverReadsTheTrailer: the response that hooks see does not change while
// they look at it. The race detector sees one that does.
func TestObserverReadsTheTrailer(t *testing.T) {
	var sends atomic.Int32
	srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1) > 1 {
			return
		}
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(503)
		io.WriteString(w, "{")
		http.NewResponseController(w).Flush()
		time.Sleep(1100 * time.Millisecond) // the body is waited for a second
		w.Header().Set("X-Sum", "1")
	})
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), Observe: func(a awsretry.Attempt) {
		for start := time.Now(); a.Stop == "" && time.Since(start) < 300*time.Millisecond; time.Sleep(time.Millisecond) {
			_ = a.Response.Trailer.Get("X-Sum")
		}
	}}
	resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	whole(t, resp)
}
