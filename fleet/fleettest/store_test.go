package fleettest

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

// The parts of a Store other than the script, which law_test.go tests.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &Store{Latency: 10 * time.Millisecond}
		start := time.Now()
		arg, _ := json.Marshal(protocol.Request{
			Lease: 400, Expiry: 1000, SeedRate: 100, SeedTokens: 490, Capacity: 500, Traffic: -1, Asked: 40,
		})
		_, err := store.Eval(t.Context(), "", []string{"key"}, []string{string(arg)})
		if err != nil || time.Since(start) != store.Latency {
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
		_, err = store.Eval(t.Context(), "", []string{"key"}, []string{"1"})
		if err == nil || !strings.Contains(err.Error(), "runs renewals only") || store.Evals() != 2 {
			t.Errorf("a call of Eval that is no renewal, the %dth, returned %v", store.Evals(), err)
		}
	})
}

// A share that is the whole rate does not exceed it by rounding.
func TestAllOfARate(t *testing.T) {
	for i := range 300 {
		rate := math.Exp(float64(i) / 30)
		r := protocol.Request{ID: "id", Lease: 400, SeedRate: rate, Wanted: 1e9}
		if share := new(partition).renew(&r, time.Now()).Share; share > rate || share < 0.5*rate {
			t.Fatalf("one member has %v of %v", share, rate)
		}
	}
}
