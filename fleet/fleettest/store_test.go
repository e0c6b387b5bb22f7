package fleettest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &Store{Latency: 10 * time.Millisecond}
		start, r := time.Now(), some(protocol.Last{})
		r.Asked, r.Expiry = 40, 1000
		arg, _ := json.Marshal(r)
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

// some returns a renewal by a member that wants many send tokens.
func some(last protocol.Last) protocol.Request {
	return protocol.Request{
		ID: "id", Last: last, Settings: "s", Pacing: "scaled", Lease: 400, Expiry: 60000,
		SeedRate: 100, SeedTokens: 490, Law: protocol.Law{Rate: -1}, Wanted: 1000, Capacity: 500, Asked: 10,
	}
}

// All of a rate, as it is granted, is not more than the rate.
func TestAllOfARate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for range 300 {
		rate := math.Exp(10 * random.Float64())
		r := some(protocol.Last{})
		r.SeedRate, r.Wanted = rate, 1e9
		if share := new(partition).renew(&r, time.Now()).Share; share > rate || share < 0.5*rate {
			t.Fatalf("one member has %v of %v", share, rate)
		}
	}
}

// A member that knows the rate from before the store lost it brings it back,
// although another one made the key again.
func TestRateOfAnEmptyStore(t *testing.T) {
	var p partition
	for _, test := range []struct {
		id, epoch      string
		seedRate, want float64
	}{
		{"new", "", 0, 0}, {"old", "before", 50, 50}, {"older", "before", 70, 50}, {"newest", "", 0, 50},
	} {
		r := some(protocol.Last{Epoch: test.epoch})
		r.ID, r.SeedRate = test.id, test.seedRate
		if got := p.renew(&r, time.Now()).Rate; got != test.want {
			t.Errorf("after a renewal of a member that is %s the rate is %g, want %g", test.id, got, test.want)
		}
	}
}

// The server's clock jumps and back, in the middle of a steady rate: at most a
// lease's tokens are granted for the jump, the grants go on after it, and a
// Retry-After neither ends nor lasts longer by more than ten leases.
func TestServerClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{
		"none": 0, "ahead": time.Hour, "back": -time.Hour, "to 1970": -time.Since(time.Unix(1, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			var p partition
			var last protocol.Last
			now := time.Now()
			fourSeconds := func(what string) {
				granted := 0.0
				for range 20 {
					now = now.Add(200 * time.Millisecond)
					r := some(last)
					last = p.renew(&r, now).Last
					granted += last.Share * 0.2
				}
				if granted > 4*100+400*0.1 || granted < 4*100*0.8 {
					t.Errorf("%s: %g tokens were granted in 4 s at 100/s", what, granted)
				}
			}
			fourSeconds("before")
			other := some(protocol.Last{})
			other.ID, other.Wanted, other.Gate = "other", 0, 60000
			p.renew(&other, now)
			now = now.Add(jump)
			other.Gate, other.Leaving = 0, true
			gate := p.renew(&other, now).Gate
			if gate < 60000-10*400 || gate > 60000 {
				t.Errorf("the Retry-After of a minute has %g ms left", gate)
			}
			fourSeconds("after the jump")
			now = now.Add(-jump)
			fourSeconds("after the clock was set right")
		})
	}
}
