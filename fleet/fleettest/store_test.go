package fleettest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &Store{Latency: 10 * time.Millisecond}
		start, args := time.Now(), strings.Fields(
			"id 400 500 0 490 0 0 0 0 0 0 -1 0 0 0 0 0 40 0 0 0 1000 0 settings scaled 0 0 0 EPOCH 0 0")
		if _, err := store.Eval(t.Context(), "", []string{"key"}, args); err != nil || time.Since(start) != store.Latency {
			t.Fatalf("Eval returned %v after %v", err, time.Since(start))
		}
		for _, step := range []struct {
			after time.Duration
			key   string
			want  float64
			ok    bool
		}{
			{0, "another", 0, false}, {0, "key", 450, true},
			{995*time.Millisecond - 1, "key", 450, true}, {1, "key", 0, false},
		} {
			time.Sleep(step.after)
			if n, ok := store.Tokens(step.key); n != step.want || ok != step.ok {
				t.Errorf("after %v: Tokens(%q) = %g, %v", time.Since(start), step.key, n, ok)
			}
		}
		_, err := store.Eval(t.Context(), "", []string{"key"}, args[1:])
		if err == nil || !strings.Contains(err.Error(), "30 arguments") || store.Evals() != 2 {
			t.Errorf("a call of Eval that is no renewal, the %dth, returned %v", store.Evals(), err)
		}
	})
}
