package deliveryqueue

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/deliveryqueue/webhook"
	"example.com/awsretry/internal/httpfake"
)

// What fails before it leaves the process is retried as the policy says, is one
// warning, and disables no endpoint.
func TestOwnFaults(t *testing.T) {
	t.Parallel()
	signer := must[*webhook.Signer](t)(webhook.NewSigner("whsec_" + strings.Repeat("QUJD", 8)))
	sign := func(err error) http.RoundTripper {
		return webhook.Sign(httpfake.Statuses(204), func(*http.Request) (*webhook.Signer, error) { return signer, err })
	}
	for name, tt := range map[string]struct {
		base              http.RoundTripper
		key, reason, text string
	}{
		"no secret":   {sign(errors.New("the secrets cannot be read")), "7", "max_attempts", "the secrets cannot be read"},
		"a full stop": {sign(nil), "order.7", "max_attempts", "full stop"},
		"a panic":     {httpfake.Base(func(*http.Request) (*http.Response, error) { panic("boom") }), "7", "panic", "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, store := new(httpfake.Buffer), newSQLite(t)
			q := must[*Queue](t)(Open(t.Context(), store, Config{
				Base: tt.base, DisableAfter: time.Nanosecond, PollInterval: minPollInterval,
				Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			}))
			defer q.Close()
			other := open(t, store, Config{}) // it does not know that another process signs
			id := enqueue(t, other, post(t, "http://endpoint.test", "hello"), Options{Policy: retries(t, 3), IdempotencyKey: tt.key})
			stop := run(q)
			waitFor(t, q, Stats{Dead: 1})
			check(t, stop())
			if d := get(t, q, id); d.Attempts != 4 || d.Reason != tt.reason || !strings.Contains(d.Err, tt.text) {
				t.Errorf("%+v", d)
			}
			if e := endpoints(t, q)["http://endpoint.test"]; !e.Failing.IsZero() || !e.Disabled.IsZero() {
				t.Errorf("%+v", e)
			}
			if text := log.String(); strings.Count(text, "could not send a delivery") != 1 || !strings.Contains(text, tt.text) {
				t.Errorf("the log is\n%s", text)
			}
		})
	}
}
