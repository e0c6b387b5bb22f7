package fleettest

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/alicebob/miniredis/v2"
)

// FuzzLaw compares the Store with renew.lua in miniredis, which runs it with a
// Lua interpreter in Go: the replies to the same renewals, and what is stored.
func FuzzLaw(f *testing.F) {
	f.Add(uint64(10))
	f.Fuzz(func(t *testing.T, seed uint64) { compare(t, miniredis.RunT(t).Addr(), seed, 200) })
}

// TestLaw compares the Store with renew.lua in a server.
func TestLaw(t *testing.T) {
	server := storetest.Start(t)
	for seed := range uint64(5) {
		server.Do("FLUSHALL")
		compare(t, server.Addr, seed, 800)
	}
}

// compare makes n random renewals of one key. The server takes the time from
// two more arguments.
func compare(t *testing.T, addr string, seed uint64, n int) {
	const key, clock = "key", "redis.call('TIME')"
	lua, err := os.ReadFile("../renew.lua")
	if err != nil || strings.Count(string(lua), clock) != 1 {
		t.Fatalf("the script must have %s once (%v)", clock, err)
	}
	script := strings.Replace(string(lua), clock, "{ ARGV[2], ARGV[3] }", 1)
	client := storetest.Connect(t, addr)
	server := fleet.Valkey(client)
	var memory partition
	r := renewals{
		Rand: rand.New(rand.NewPCG(seed, 0)), at: time.Unix(1764000000, 0),
		last: make(map[string]protocol.Last),
	}
	r.members, r.maxRate, r.calm = 1+r.IntN(60), pick(&r, 2, 100, 0.0), seed%5 == 4
	for i := range n {
		request := r.next()
		arg, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		got := memory.renew(&request, r.at)
		texts, err := server.Eval(t.Context(), script, []string{key},
			[]string{string(arg), strconv.FormatInt(r.at.Unix(), 10), strconv.Itoa(r.at.Nanosecond() / 1000)})
		if err != nil {
			t.Fatalf("seed %d, renewal %d: %s: %v", seed, i, arg, err)
		}
		var want protocol.Reply
		if err := json.Unmarshal([]byte(texts[0]), &want); err != nil || !equal(fields(got), fields(want)) {
			t.Fatalf("seed %d, renewal %d: %s\nStore  %+v\nserver %s %v", seed, i, arg, got, texts[0], err)
		}
		found := client.DoMulti(t.Context(), client.B().Pttl().Key(key).Build(), client.B().Hgetall().Key(key).Build())
		left, err := found[0].AsInt64()
		if own := memory.expires.Sub(r.at).Milliseconds(); err != nil || got.Differs == "" && (left > own || left < own-10_000) {
			t.Fatalf("seed %d, renewal %d: %s\nStore  expires after %d ms\nserver after %d (%v)", seed, i, arg, own, left, err)
		}
		if got.Differs == "" {
			r.last[request.ID] = want.Last
		}
		stored, err := found[1].AsStrMap()
		if err != nil || !equal(fields(memory), stored) {
			t.Fatalf("seed %d, renewal %d: %s\nStore  %+v\nserver %q %v", seed, i, arg, memory, stored, err)
		}
	}
}

// equal reports whether the server has these fields. The numbers of its replies
// have 14 digits.
func equal(store, server map[string]string) bool {
	return maps.EqualFunc(store, server, func(a, b string) bool {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		return a == b || errX == nil && errY == nil && math.Abs(x-y) <= 1e-13*math.Abs(x)
	})
}

// fields returns the fields of a partition or a reply with their names in the
// hash or in JSON.
func fields(of any) map[string]string {
	all := make(map[string]string)
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		switch name, field := v.Type().Field(i).Name, v.Field(i); {
		case field.Kind() == reflect.String:
			all[name] = field.String()
		case field.Kind() == reflect.Float64:
			all[name] = strconv.FormatFloat(field.Float(), 'g', -1, 64)
		case field.Kind() == reflect.Bool:
			all[name] = strconv.FormatBool(field.Bool())
		case field.Type() == reflect.TypeFor[sum]():
			for part, x := range fields(sum{field.Field(0).Float(), field.Field(1).Float()}) {
				all[name+map[string]string{"before": "Before"}[part]] = x
			}
		case v.Type().Field(i).Anonymous:
			maps.Copy(all, fields(field.Interface()))
		}
	}
	return all
}

// A renewals makes random renewals by several members.
type renewals struct {
	*rand.Rand
	members int
	wanted  float64 // send tokens
	maxRate float64
	calm    bool // nothing limits the rate, and all retry tokens are there
	at      time.Time
	last    map[string]protocol.Last
}

// next returns the next renewal, and lets some time pass.
func (r *renewals) next() protocol.Request {
	below := func(n int) float64 { return float64(r.IntN(n)) }
	switch {
	case r.one(100): // all are silent
		r.at = r.at.Add(time.Duration(r.IntN(300)) * time.Second)
	case r.one(50): // some are
		r.at = r.at.Add(time.Duration(r.IntN(30)) * 400 * time.Millisecond)
	case r.one(50): // the clock jumps
		r.at = r.at.Add(time.Duration(r.IntN(20)-10) * time.Second)
	case r.one(2): // in between each member renews about once
		r.at = r.at.Add(time.Duration(r.IntN(int(time.Second) / r.members)))
	}
	if r.one(100) {
		r.wanted = pick(r, 2, 100.0, 0.01)
	}
	a := protocol.Request{
		ID: "process" + strconv.Itoa(r.IntN(r.members)), Settings: "Lease:400ms Capacity:500",
		Pacing: pick(r, 10, pick(r, 3, "cubic", ""), "scaled"), Lease: 400, Expiry: 3_600_000,
		SeedRate: pick(r, 3, 50.0, 0), SeedTokens: r.IntN(600), Leaving: r.one(20),
		Sums: protocol.Sums{
			Sent: below(100), Throttled: below(10),
			Trips: 1000 * r.Float64(), TripsOf: below(100),
		},
		Law:    protocol.Law{Rate: pick(r, 3, 200*r.Float64(), -1), Limit: below(300), Trip: below(1e4)},
		Wanted: r.wanted * r.Float64(), Unused: pick(r, 2, 0, r.Float64()),
		MaxRate: pick(r, 50, 500, r.maxRate), Ends: pick(r, 2, 0, below(1e6)), Since: below(400), Away: below(100),
		Capacity: 500, PerCall: 20, Traffic: pick(r, 2, -1, below(500)), Spare: pick(r, 5, 500, 0), Spared: r.IntN(60),
		Returned: r.IntN(20), Asked: r.IntN(40), Held: r.IntN(30), Counted: r.IntN(40),
		Gate: pick(r, 20, below(60000), 0),
		Said: pick(r, 3, "said "+strconv.Itoa(r.IntN(100)), ""), SaidAge: below(5000),
	}
	if r.calm {
		a.SeedRate, a.Rate, a.Said, a.Traffic = 0, -1, "", -1
		a.SeedTokens, a.Asked, a.Held, a.Counted = 500, 0, 0, 0
	}
	a.Last = r.last[a.ID]
	switch {
	case r.one(100): // it has just started
		a.Last = protocol.Last{}
	case r.one(100): // it knows what the store has lost
		a.Epoch = "an older epoch"
	case r.one(400): // the store has lost what came later
		a.Now += 10_000
	case r.one(400):
		a.Renewals += 10
	}
	if r.one(20) {
		a.Settings, a.Lease, a.Capacity = "others "+strings.Repeat("x", r.IntN(2000)), pick(r, 2, 50.0, 10000), 300
	}
	return a
}

// one reports true one time in n.
func (r *renewals) one(n int) bool { return r.IntN(n) == 0 }

// pick returns the first of two values one time in n.
func pick[T any](r *renewals, n int, seldom, often T) T {
	if r.one(n) {
		return seldom
	}
	return often
}

// A store that is back at an older copy is noticed by the members that have renewed
// since, even if one that has not renews before them: what they spent is gone.
func TestOlderCopy(t *testing.T) {
	for _, lost := range []int{4, 40, 400} { // renewals
		var p, older partition
		at, last := time.Unix(1764000000, 0), make(map[string]protocol.Last)
		renew := func(id string, asked int) protocol.Reply {
			a := protocol.Request{
				ID: id, Last: last[id], Lease: 400, Expiry: 3_600_000, SeedTokens: 500, Capacity: 500, Traffic: -1, Asked: asked,
				Law: protocol.Law{Rate: -1},
			}
			at = at.Add(100 * time.Millisecond)
			got := p.renew(&a, at)
			last[id] = got.Last
			return got
		}
		for i := range 10 + lost {
			if i == 10 {
				older = p
			}
			renew([]string{"a", "b"}[i%2], 1)
		}
		epoch := last["a"].Epoch
		p = older
		renew("new", 0)
		if got := renew("a", 0); got.Epoch == epoch {
			t.Errorf("%d renewals were lost, and %g tokens came back", lost, got.Left)
		}
	}
}

var _ fleet.Client = (*Store)(nil)
