package fleet_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"
)

// The tests of this file run the script in a server, and in miniredis.

// A scripted runs the script at times of its own.
type scripted struct {
	*testing.T
	client valkey.Client
	at     time.Time
}

func eachStore(t *testing.T, test func(s *scripted)) {
	run := func(t *testing.T, addr string) {
		test(&scripted{t, storetest.Connect(t, addr), time.Unix(1764000000, 0)})
	}
	t.Run("server", func(t *testing.T) { run(t, storetest.Start(t).Addr) })
	t.Run("miniredis", func(t *testing.T) { run(t, miniredis.RunT(t).Addr()) })
}

// do runs a command.
func (s *scripted) do(command ...string) valkey.ValkeyResult {
	s.Helper()
	got := s.client.Do(s.Context(), s.client.B().Arbitrary(command...).Build())
	if err := got.Error(); err != nil && !valkey.IsValkeyNil(err) {
		s.Fatalf("%.100q: %v", command, err)
	}
	return got
}

// renew renews a lease of a key. The reply must make sense.
func (s *scripted) renew(key string, r protocol.Request) protocol.Reply {
	s.Helper()
	const clock = "redis.call('TIME')"
	if strings.Count(fleet.Script, clock) != 1 {
		s.Fatalf("the script must have %s once", clock)
	}
	script := strings.Replace(fleet.Script, clock, "{ ARGV[2], 0 }", 1)
	args := append(text(&r), strconv.FormatInt(s.at.Unix(), 10))
	texts, err := fleet.Valkey(s.client).Eval(s.Context(), script, []string{key}, args)
	if err != nil {
		s.Fatalf("%.100q: %v", key, err)
	}
	got := read[protocol.Reply](texts)
	if err := fleet.Check(&got, &r); got.Differs == "" && err != nil {
		s.Fatalf("%.100q: %v", key, err)
	}
	return got
}

// some is a renewal, with what the last reply said.
func some(last protocol.Last) protocol.Request {
	r := read[protocol.Request](renewal(nil))
	r.Lease, r.Asked, r.Last = 2000, 600, last
	return r
}

// Values in the key that the script did not write there do no lasting harm: the
// replies make sense, and grant what the rate allows.
func TestDamagedKey(t *testing.T) {
	eachStore(t, func(s *scripted) {
		damage := func(field, value string) {
			key := fmt.Sprintf("%s%.20q", field, value)
			last := s.renew(key, some(protocol.Last{})).Last
			s.do("HSET", key, field, value)
			var got protocol.Reply
			for range 5 {
				s.at = s.at.Add(time.Second)
				got = s.renew(key, some(last))
				if last = got.Last; got.Share > 200 || got.Tokens > capacity {
					s.Errorf("%s is %.20q: a rate of %g and %g retry tokens", field, value, got.Share, got.Tokens)
				}
			}
			if got.Share < 50 && field != "rate" {
				s.Errorf("%s is %.20q: a rate of %g two leases later", field, value, got.Share)
			}
		}
		for _, field := range []string{
			"now", "server", "rate", "limit", "trip", "left", "began", "asking", "askingBefore", "granted", "grantedBefore",
			"members", "membersBefore", "window", "tokens", "held", "heldBefore", "heldBegan", "heldWindow",
			"pacingAt", "gate", "cut", "leaderUntil", "accepted", "trips", "saidAt", "epoch", "leader", "said", "holes",
		} {
			for _, value := range []string{
				"nan", "-nan", "inf", "-inf", "1e308", "-1", "", "text", "8e12", "1e14", strings.Repeat("9", 200_000), "\x00",
			} {
				damage(field, value)
			}
		}
	})
}

// A key that somebody else uses is not renewed, for a minute after it last was.
// A time of that in the future does not lock it.
func TestLockedKey(t *testing.T) {
	eachStore(t, func(s *scripted) {
		seconds := func(d int) string { return fmt.Sprint(1000 * (s.at.Unix() + int64(d))) }
		for _, test := range []struct {
			field, at string // the time of the last renewal
			ago       int    // seconds
			differs   bool
		}{
			{"format", "server", 59, true},
			{"format", "server", 60, false},
			{"settings", "server", 59, true},
			{"settings", "server", 60, false},
			{"settings", "server", -3600, false},
			{"pacing", "pacingAt", 59, true},
			{"pacing", "pacingAt", 60, false},
			{"pacing", "pacingAt", -3600, false},
		} {
			key := fmt.Sprint(test)
			last := s.renew(key, some(protocol.Last{})).Last
			s.do("HSET", key, test.field, "another", test.at, seconds(-test.ago))
			got := s.renew(key, some(last))
			if differs := got.Differs == test.field && got.Theirs == "another"; differs != test.differs {
				s.Errorf("%v: the reply is %+v", test, got)
			}
		}
	})
}

// A key of which nothing is known expires soon, and may be one of many.
func TestExpiry(t *testing.T) {
	eachStore(t, func(s *scripted) {
		for name, test := range map[string]struct {
			change func(*protocol.Request)
			want   int64 // seconds
		}{
			"new":           {func(*protocol.Request) {}, 60},
			"a long lease":  {func(r *protocol.Request) { r.Lease = 10_000 }, 200},
			"a rate":        {func(r *protocol.Request) { r.SeedRate = 100 }, 3600},
			"a retry":       {func(r *protocol.Request) { r.SeedTokens-- }, 3600},
			"a Retry-After": {func(r *protocol.Request) { r.Gate = 1000 }, 3600},
			"limits":        {func(r *protocol.Request) { r.Said = "{}" }, 3600},
			"a short one":   {func(r *protocol.Request) { r.Expiry = 5000 }, 5},
		} {
			r := some(protocol.Last{})
			r.Expiry, r.SeedRate, r.SeedTokens = 3_600_000, 0, capacity
			test.change(&r)
			s.renew(name, r)
			if got, _ := s.do("PTTL", name).AsInt64(); got > 1000*test.want || got < 1000*test.want-3000 {
				s.Errorf("%s: expires after %d ms, want %d s", name, got, test.want)
			}
		}
	})
}

// A store that is back at an older copy makes the key again, with what the
// process knows.
func TestOlderCopyOfTheStore(t *testing.T) {
	eachStore(t, func(s *scripted) {
		last := s.renew(key, some(protocol.Last{})).Last
		for range 10 {
			s.at = s.at.Add(time.Second)
			last = s.renew(key, some(last)).Last
		}
		older, _ := s.do("HGETALL", key).AsStrMap()
		for range 60 {
			s.at = s.at.Add(time.Second)
			last = s.renew(key, some(last)).Last
		}
		for field, value := range older {
			s.do("HSET", key, field, value)
		}
		r := some(last)
		r.SeedRate, r.SeedTokens, r.Asked = 70, 30, 0
		s.at = s.at.Add(time.Second)
		if got := s.renew(key, r); got.Epoch == last.Epoch || got.Now != 0 || got.Rate != 70 || got.Left != 30 {
			s.Errorf("the reply is %+v", got)
		}
	})
}

// The fields of somebody else stay.
func TestForeignFields(t *testing.T) {
	eachStore(t, func(s *scripted) {
		for i := range 50 {
			command := []string{"HSET", key}
			for j := range 100 {
				command = append(command, fmt.Sprint("field", 100*i+j), fmt.Sprint(j))
			}
			s.do(command...)
		}
		s.renew(key, some(protocol.Last{}))
		if field, _ := s.do("HGET", key, "field4999").ToString(); field != "99" {
			s.Errorf("a field is %q", field)
		}
	})
}
