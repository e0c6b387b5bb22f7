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
	"github.com/valkey-io/valkey-go"
)

// The tests in this file are for values in keys that the script did not write.
// TestLaw of fleettest tests everything else that the script does.

// A scripted runs the script in a server, at given times.
type scripted struct {
	*testing.T
	client valkey.Client
	at     time.Time
}

func newScripted(t *testing.T) *scripted {
	return &scripted{t, storetest.Connect(t, storetest.Start(t).Addr), time.Unix(1764000000, 0)}
}

func (s *scripted) set(key string, fieldsAndValues ...string) {
	s.Helper()
	command := s.client.B().Arbitrary("HSET").Keys(key).Args(fieldsAndValues...).Build()
	if err := s.client.Do(s.Context(), command).Error(); err != nil {
		s.Fatalf("%.100q: %v", fieldsAndValues, err)
	}
}

// renew renews a lease of a key, and checks the reply.
func (s *scripted) renew(key string, last protocol.Last) protocol.Reply {
	s.Helper()
	const clock = "redis.call('TIME')"
	if strings.Count(fleet.Script, clock) != 1 {
		s.Fatalf("the script must have %s once", clock)
	}
	script := strings.Replace(fleet.Script, clock, "{ ARGV[2], 0 }", 1)
	r := read[protocol.Request](renewal(func(r *protocol.Request) { r.Lease, r.Asked, r.Last = 2000, 600, last }))
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

// Values in the key that the script did not write do no lasting harm: the replies
// are valid, and grant what the rate allows. Unknown fields are kept.
func TestDamagedKey(t *testing.T) {
	s := newScripted(t)
	for _, field := range []string{
		"now", "server", "renewals", "rate", "limit", "trip", "left", "asking", "askingBefore", "granted", "grantedBefore",
		"members", "membersBefore", "tokens", "held", "heldBefore",
		"pacingAt", "gate", "cut", "leaderUntil", "accepted", "trips", "saidAt", "epoch", "leader", "said", "foreign",
	} {
		for _, value := range []string{"nan", "inf", "-1", "text", "8e12", strings.Repeat("9", 200_000)} {
			key := fmt.Sprintf("%s%.20q", field, value)
			last := s.renew(key, protocol.Last{}).Last
			s.set(key, field, value)
			var got protocol.Reply
			for range 5 {
				s.at = s.at.Add(time.Second)
				got = s.renew(key, last)
				if last = got.Last; got.Share > 200 || got.Tokens > capacity {
					s.Errorf("%s is %.20q: a rate of %g and %g retry tokens", field, value, got.Share, got.Tokens)
				}
			}
			if got.Share < 50 && field != "rate" {
				s.Errorf("%s is %.20q: a rate of %g two leases later", field, value, got.Share)
			}
			has, _ := s.client.Do(s.Context(), s.client.B().Hget().Key(key).Field("foreign").Build()).ToString()
			if field == "foreign" && has != value {
				s.Errorf("somebody else's field is %.20q, and was %.20q", has, value)
			}
		}
	}
}

// A key that other processes use is not renewed until a minute after their last
// renewal. A time of that renewal in the future does not lock the key.
func TestLockedKey(t *testing.T) {
	s := newScripted(t)
	for _, test := range []struct {
		field, at string        // the time of the last renewal
		ago       time.Duration // since then
		differs   bool
	}{
		{"format", "server", 59 * time.Second, true},
		{"format", "server", 60 * time.Second, false},
		{"settings", "server", 59 * time.Second, true},
		{"settings", "server", -time.Hour, false},
		{"pacing", "pacingAt", 59 * time.Second, true},
		{"pacing", "pacingAt", 60 * time.Second, false},
	} {
		key := fmt.Sprint(test)
		last := s.renew(key, protocol.Last{}).Last
		s.set(key, test.field, "another", test.at, fmt.Sprint(s.at.Add(-test.ago).UnixMilli()))
		got := s.renew(key, last)
		if differs := got.Differs == test.field && got.Theirs == "another"; differs != test.differs {
			s.Errorf("%v: the reply is %+v", test, got)
		}
	}
}
