package fleettest

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &Store{Latency: 10 * time.Millisecond}
		start, args := time.Now(), strings.Fields(
			"id 400 500 0 490 0 0 0 0 0 0 -1 0 0 0 0 0 40 0 0 0 1000 0 settings scaled 0 0 0 EPOCH 0 0 SAID 0")
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
		if err == nil || !strings.Contains(err.Error(), "32 arguments") || store.Evals() != 2 {
			t.Errorf("a call of Eval that is no renewal, the %dth, returned %v", store.Evals(), err)
		}
	})
}

// argsOf returns the arguments of a renewal by a member that wants many send
// tokens, with some changed. last is the reply before, or nil.
func argsOf(last []string, values map[int]string) []string {
	args := strings.Fields("id 400 500 100 490 0 0 0 0 0 0 -1 0 1000 0 0 0 0 10 0 0 60000 0 s scaled 0 0 0 EPOCH 0 0 SAID 0")
	args[28], args[31] = "", ""
	if last != nil {
		args[14], args[15], args[25] = last[2], last[4], last[17]
	}
	for i, value := range values {
		args[i] = value
	}
	return args
}

func renew(t *testing.T, p *partition, at time.Time, args []string) (reply []string, share, gate float64) {
	t.Helper()
	reply, err := p.renew(args, at)
	if err != nil {
		t.Fatal(err)
	}
	share, _ = strconv.ParseFloat(reply[4], 64)
	gate, _ = strconv.ParseFloat(reply[10], 64)
	return reply, share, gate
}

// All of a rate, as it is granted, is not more than the rate.
func TestAllOfARate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for range 300 {
		rate := math.Exp(10 * random.Float64())
		_, share, _ := renew(t, new(partition), time.Now(), argsOf(nil, map[int]string{3: text(rate), 13: "1e9"}))
		if share > rate || share < 0.5*rate {
			t.Fatalf("one member has %v of %v", share, rate)
		}
	}
}

// A member that knows the rate from before the store lost it brings it back,
// although another one made the key again.
func TestRateOfAnEmptyStore(t *testing.T) {
	var p partition
	for _, test := range []struct{ id, epoch, seedRate, want string }{
		{"new", "", "0", "0"}, {"old", "before", "50", "50"}, {"older", "before", "70", "50"}, {"newest", "", "0", "50"},
	} {
		reply, _, _ := renew(t, &p, time.Now(), argsOf(nil, map[int]string{0: test.id, 28: test.epoch, 3: test.seedRate}))
		if reply[3] != test.want {
			t.Errorf("after a renewal of a member that is %s the rate is %s, want %s", test.id, reply[3], test.want)
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
			var last []string
			now := time.Now()
			fourSeconds := func(what string) {
				granted := 0.0
				for range 20 {
					now = now.Add(200 * time.Millisecond)
					reply, share, _ := renew(t, &p, now, argsOf(last, nil))
					last = reply
					granted += share * 0.2
				}
				if granted > 4*100+400*0.1 || granted < 4*100*0.8 {
					t.Errorf("%s: %g tokens were granted in 4 s at 100/s", what, granted)
				}
			}
			fourSeconds("before")
			renew(t, &p, now, argsOf(nil, map[int]string{0: "other", 13: "0", 20: "60000"}))
			now = now.Add(jump)
			_, _, gate := renew(t, &p, now, argsOf(nil, map[int]string{0: "other", 13: "0", 19: "1"}))
			if gate < 60000-10*400 || gate > 60000 {
				t.Errorf("the Retry-After of a minute has %g ms left", gate)
			}
			fourSeconds("after the jump")
			now = now.Add(-jump)
			fourSeconds("after the clock was set right")
		})
	}
}
