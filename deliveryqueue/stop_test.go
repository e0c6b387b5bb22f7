package deliveryqueue

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/deliveryqueue/internal/storetest"
)

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		end.delay = 300 * time.Millisecond
		q := open(t, store, Config{})
		stop := startOne(t, q, end)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("the stop took %v", took)
		}
		if s := stats(t, q); s != (Stats{Delivered: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 1, 200)
		q := open(t, store, Config{StopTimeout: 200 * time.Millisecond})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		stop := run(q)
		end.wait(t, 1)
		begin := time.Now()
		err := stop()
		if took := time.Since(begin); took > time.Minute || err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("after %v: %v", took, err)
		}
		if s := stats(t, q); s != (Stats{Waiting: 1}) {
			t.Errorf("%+v", s)
		}
		q.config.StopTimeout = time.Minute
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		if d := list(t, q, Filter{})[0]; d.Attempts != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// River itself commits no outcome: it would do so too late.
func TestRiverCommitsNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 503, 200, 404)
		q := open(t, store, Config{Workers: 1})
		var log storetest.Buffer
		q.river = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
			"numRetries": 1, "numNoDelayRetries": 1}}`)})
		stop := start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		waitFor(t, q, Stats{Delivered: 1, Dead: 1})
		stop()
		text := log.String()
		if !strings.Contains(text, "River client started") {
			t.Error("nothing was logged")
		}
		for _, no := range []string{"errored", "snoozed", "Completing batch"} {
			if strings.Contains(text, no) {
				t.Errorf("River has %q:\n%s", no, text)
			}
		}
	})
}
