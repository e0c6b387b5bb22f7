package fleet_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
)

// A clockClient runs the script with a clock of its own in place of the
// server's.
type clockClient struct {
	fleet.Client
	t   testing.TB
	key string
	now time.Time
}

func (c *clockClient) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	const clock = "redis.call('TIME')"
	if strings.Count(script, clock) != 1 {
		c.t.Fatalf("the script reads %s %d times, not once", clock, strings.Count(script, clock))
	}
	script = strings.Replace(script, clock, "{ ARGV[#ARGV - 1], ARGV[#ARGV] }", 1)
	args = append(
		args[:len(args):len(args)],
		strconv.FormatInt(c.now.Unix(), 10),
		strconv.Itoa(c.now.Nanosecond()/1000),
	)
	return c.Client.Eval(ctx, script, keys, args)
}

// renewal is the arguments of a renewal by a process that wants many send
// tokens, with some changed.
func renewal(values map[int]string) []string {
	a := strings.Fields(
		"id 400 500 100 490 0 0 0 0 0 0 -1 0 1000 0 0 0 0 10 0 0 60000 0 settings scaled 0 0 0 EPOCH 0 0",
	)
	a[argEpoch] = ""
	for i, value := range values {
		a[i] = value
	}
	return a
}

// renewAll renews and returns the numbers of the reply; [0] is unused.
func (c *clockClient) renewAll(values map[int]string) []float64 {
	c.t.Helper()
	texts, err := c.Eval(c.t.Context(), fleet.Script, []string{c.key}, renewal(values))
	if err != nil {
		c.t.Fatal(err)
	}
	numbers := make([]float64, len(texts))
	for i, text := range texts[1:] {
		numbers[i+1], err = strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(numbers[i+1]) || math.IsInf(numbers[i+1], 0) || numbers[i+1] < 0 {
			c.t.Fatalf("the script returned %q", texts)
		}
	}
	return numbers
}

// The server's clock jumps by an hour and back, in the middle of a steady rate:
// at most a lease's tokens are granted for the jump, the grants go on after it,
// and a Retry-After neither ends nor lasts longer by more than ten leases.
func TestServerClockJumps(t *testing.T) {
	store := storetest.Start(t)
	for name, jump := range map[string]time.Duration{
		"none": 0, "ahead": time.Hour, "back": -time.Hour, "to 1970": -time.Since(time.Unix(1, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			c := &clockClient{Client: dial(t, store.Addr), t: t, key: "awsretry:{" + name + "}", now: time.Now()}
			window, share, part := "0", "0", "0"
			granted := 0.0
			step := func() []float64 {
				c.now = c.now.Add(200 * time.Millisecond)
				r := c.renewAll(map[int]string{14: window, 15: share, 25: part})
				window, share = strconv.FormatFloat(r[2], 'f', -1, 64), strconv.FormatFloat(r[4], 'f', -1, 64)
				part = strconv.FormatFloat(r[17], 'f', -1, 64)
				granted += r[replyShare] * 0.2
				return r
			}
			for range 20 {
				step()
			}
			c.renewAll(map[int]string{0: "other", 13: "0", 20: "60000"}) // a Retry-After of a minute
			granted = 0
			c.now = c.now.Add(jump)
			r := step()
			if gate := r[replyGate]; gate < 60000-10*400-200 || gate > 60000 {
				t.Errorf("the Retry-After of a minute has %g ms left", gate)
			}
			for range 19 {
				step()
			}
			if granted > 4*100+400*0.1 || granted < 4*100*0.8 { // 4 s at 100/s
				t.Errorf("%g tokens were granted in 4 s", granted)
			}
			c.now = c.now.Add(-jump)
			granted = 0
			for range 20 {
				step()
			}
			if granted > 4*100+400*0.1 || granted < 4*100*0.8 {
				t.Errorf("%g tokens were granted in 4 s after the clock was set right", granted)
			}
		})
	}
}

// Numbers in the key that the script did not write there do no lasting harm:
// the script returns numbers, and grants what the rate allows.
func TestDamagedKey(t *testing.T) {
	store := storetest.Start(t)
	client := dial(t, store.Addr)
	fields := []string{
		"now", "server", "rate", "left", "turn", "began", "asking", "askingBefore", "granted", "grantedBefore",
		"placed", "placedBefore", "holes", "members", "membersBefore", "window", "tokens", "held", "heldBefore",
		"heldBegan", "heldWindow", "pacingAt", "gate", "cut", "leaderUntil", "accepted", "trips",
	}
	for _, field := range fields {
		for _, value := range []string{
			"nan", "-nan", "inf", "-inf", "1e308", "-1", "", "text", strings.Repeat("9", 10000), "\x00",
		} {
			c := &clockClient{
				Client: client,
				t:      t,
				key:    fmt.Sprintf("awsretry:{%s%.20q}", field, value),
				now:    time.Now(),
			}
			c.renewAll(nil)
			if _, err := c.Client.Eval(t.Context(), "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return {}",
				[]string{c.key}, []string{field, value}); err != nil {
				t.Fatal(err)
			}
			window, share, part := "0", "0", "0"
			var last []float64
			for range 5 {
				c.now = c.now.Add(200 * time.Millisecond)
				last = c.renewAll(map[int]string{14: window, 15: share, 25: part, 17: "600"})
				window, share = strconv.FormatFloat(last[2], 'f', -1, 64), strconv.FormatFloat(last[4], 'f', -1, 64)
				part = strconv.FormatFloat(last[17], 'f', -1, 64)
				if last[replyShare] > 200 || last[replyTokens] > 500 {
					t.Errorf(
						"%s is %.20q: a rate of %g and %g retry tokens",
						field,
						value,
						last[replyShare],
						last[replyTokens],
					)
				}
			}
			if last[replyShare] < 50 && field != "rate" {
				t.Errorf("%s is %.20q: a rate of %g a second later", field, value, last[replyShare])
			}
		}
	}
}
