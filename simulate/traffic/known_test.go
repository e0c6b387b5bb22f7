package traffic

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/retrylog"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A log of a Transport has its settings.
func TestSettingOfALog(t *testing.T) {
	for _, tt := range []struct {
		tr      *awsretry.Transport
		setting string // as it is simulated
		why     string
	}{
		{&awsretry.Transport{}, "standard", "the log says it"},
		{&awsretry.Transport{Revision: awsretry.Revision2026, MaxAttempts: 5}, "revision2026", "the log says it"},
		{&awsretry.Transport{Mode: awsretry.Legacy}, "legacy", "the log says it"},
		{&awsretry.Transport{
			Mode: awsretry.Adaptive, ShareRetryAfter: true, RetryAfterSpread: -1, Resume: true,
			RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits},
			Quota:     awsretry.QuotaConfig{Share: .2},
		}, "adaptive=scaled, share, limits, share_retry_after, no_spread, resume", "the log says it"},
		{&awsretry.Transport{
			Backoff: awsretry.Exponential{}, Quota: awsretry.QuotaConfig{Capacity: 50},
			LongPoll: func(*http.Request) bool { return true },
		}, "standard", "not simulated: its Backoff, LongPoll, Quota"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			tt.tr.Base = httpfake.Statuses(200)
			tt.tr.Observe = retrylog.Config{
				Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), All: true,
			}.Observer()
			for range 100 {
				resp, err := tt.tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				time.Sleep(100 * time.Millisecond)
			}
			if n := strings.Count(out.String(), `"setting"`); n != 1 {
				t.Errorf("%d lines have the setting", n)
			}
			log, err := Read(t.Context(), &out, Options{})
			if err != nil {
				t.Fatal(err)
			}
			f, err := log.Fit(0)
			if err != nil {
				t.Fatal(err)
			}
			got := f.Scenario.Settings[0]
			if got.Name = ""; got.Label() != tt.setting || !strings.Contains(f.Comments["settings[0]"], tt.why) {
				t.Errorf("%s, %s; want %s, %s", got.Label(), f.Comments["settings[0]"], tt.setting, tt.why)
			}
			if want := tt.tr.MaxAttempts; want != 0 && got.MaxAttempts != want {
				t.Errorf("%d attempts, want %d", got.MaxAttempts, want)
			}
		})
	}
}

// Known values are not fitted.
func TestKnown(t *testing.T) {
	var b strings.Builder
	b.WriteString("\xef\xbb\xbf") // a byte-order mark
	for i := range 500 {
		b.WriteString(line(100*i, success))
	}
	present := scenario.Setting{Use: scenario.UseAdaptive, Pacing: "scaled", LongPoll: true}
	known := Known{Callers: 20, Timeout: 7 * time.Second, Present: &present}
	log, err := Read(t.Context(), strings.NewReader(b.String()), Options{Known: known})
	if err != nil {
		t.Fatal(err)
	}
	f, err := log.Fit(0)
	if err != nil {
		t.Fatal(err)
	}
	c, s := f.Scenario.Clients, f.Scenario.Settings[0]
	if c.Callers != 20 || c.Timeout != scenario.Duration(7*time.Second) || c.Rate != 0 || c.Think == 0 ||
		s.Pacing != "scaled" || !s.LongPoll || log.Lines.Unreadable != 0 {
		t.Errorf("%+v, %+v, %+v", c, s, log.Lines)
	}
}

// In a part of a log without the setting, it is guessed.
func TestGuess(t *testing.T) {
	many := strings.Repeat(line(0, success), 100)
	for text, want := range map[string]string{
		many: "present: standard",
		many + line(0, strings.Replace(success, `"attempt":1`, `"attempt":5`, 1)): "present: standard, 5 attempts",
		many + line(0, success+`,"waited_ms":7`):                                  "present: adaptive",
	} {
		f := fitted(t, []byte(text))
		if s := f.Scenario.Settings[0]; s.Name != want || !strings.HasPrefix(f.Comments["settings[0]"], "a guess") {
			t.Errorf("%+v, %s; want %s", s, f.Comments["settings[0]"], want)
		}
	}
}

// A prediction cannot be trusted if the simulation of the present setting is wrong.
func TestOff(t *testing.T) {
	f := &Fitted{Recorded: Recorded{
		Calls: 1000, Attempts: 1100, Good: 950, Failed: 50, P50: 100 * time.Millisecond, P99: time.Second,
		around50: [2]time.Duration{90 * time.Millisecond, 110 * time.Millisecond},
		around99: [2]time.Duration{time.Second, time.Second},
	}}
	right := simulate.Outcome{
		Calls: 1000, Attempts: 1120, Good: 960, Failed: 40, FailedShare: .04,
		P50: simulate.Span(110 * time.Millisecond), P99: simulate.Span(900 * time.Millisecond),
	}
	for want, change := range map[string]func(*simulate.Outcome){
		"":                       func(*simulate.Outcome) {},
		"instead of 5.0 %":       func(o *simulate.Outcome) { o.FailedShare = .1 },
		"attempts +12%":          func(o *simulate.Outcome) { o.Attempts = 1232 },
		"p50 -50%":               func(o *simulate.Outcome) { o.P50 = simulate.Span(50 * time.Millisecond) },
		"p99 +100%":              func(o *simulate.Outcome) { o.P99 = simulate.Span(2 * time.Second) },
		"20.0 % of the calls do": func(o *simulate.Outcome) { o.Unfinished = 200 },
	} {
		is := right
		change(&is)
		off := f.Off(is)
		if got := strings.Join(off, ", "); !strings.Contains(got, want) || len(off) != min(len(want), 1) {
			t.Errorf("%q, want %q", got, want)
		}
		var out strings.Builder
		if err := f.WriteComparison(&out, is); err != nil || strings.HasPrefix(out.String(), "The simulation reproduces") != (want == "") {
			t.Errorf("%v\n%s", err, out.String())
		}
		if v := f.Verdict(is); v.Reproduced != (want == "") || v.P99 != 1000 {
			t.Errorf("%+v", v)
		}
	}
}
