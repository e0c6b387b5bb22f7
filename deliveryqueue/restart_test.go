package deliveryqueue

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/deliveryqueue/internal/storetest"
)

// A PostgreSQL server that is full refuses deliveries, one that is restarted or
// crashes is found again, and what was accepted is delivered.
func TestServerOfItsOwn(t *testing.T) {
	t.Parallel()
	server, err := storetest.Start()
	if errors.Is(err, storetest.ErrMissing) {
		newPostgres(t) // skips the test, or fails it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	restart := func(signal string, limit int) {
		t.Helper()
		if err := errors.Join(server.Down(signal), server.Up(limit)); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 8_000            // of 4 or 8 MB; a file of the write-ahead log has 1
	restart("INT", limit)          // before there are connections
	noise := make([]byte, 256<<10) // cannot be compressed
	for i := range noise {
		noise[i] = byte(rand.Int())
	}

	end := newEndpoint(t, 200)
	q := open(t, server.URL("postgres"), Config{AttemptTimeout: time.Second, StopTimeout: 100 * time.Millisecond})
	// What River took and could not tell anybody is taken over after 7 s.
	q.timing = timing{settle: 5 * time.Second, rescue: time.Second, sweep: 100 * time.Millisecond}
	accepted := 0
	for {
		_, err := q.Enqueue(t.Context(), post(t, end.URL, string(noise)), Options{})
		if err != nil {
			if !strings.Contains(err.Error(), "could not extend") && !strings.Contains(err.Error(), "File too large") {
				t.Errorf("Enqueue: %v", err)
			}
			break
		}
		if accepted++; accepted > 500 {
			t.Fatal("the server is never full")
		}
	}
	if accepted == 0 {
		t.Error("the server was full from the beginning")
	}

	restart("INT", 0)
	eventually(t, "the store is there", func() bool {
		_, err := q.Stats(t.Context())
		return err == nil
	})
	end.delay = 50 * time.Millisecond
	stop := run(q)
	eventually(t, "an attempt is made", func() bool { return len(end.requests()) > 0 })
	for _, signal := range []string{"INT", "QUIT"} {
		restart(signal, 0)
		unsure := 0
		for range 20 {
			switch _, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{}); err {
			case nil:
				accepted++
			default: // of a connection that was cut
				unsure++
			}
		}
		if unsure > 10 {
			t.Errorf("%d of 20 deliveries were refused after %s", unsure, signal)
		}
	}
	eventually(t, "all are delivered", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.open() == 0 && s.Delivered >= accepted
	})
	if n, s := len(end.requests()), stats(t, q); n != s.Delivered {
		t.Errorf("%d requests for %d deliveries", n, s.Delivered)
	}
	if err := stop(); err != nil {
		t.Log(err) // River waits for connections that were cut
	}
}
