package fleettest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/alicebob/miniredis/v2"
)

// FuzzLaw compares the Store with renew.lua in miniredis, which runs it with a
// Lua interpreter in Go: the replies to the same renewals, and what is stored.
func FuzzLaw(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compare(t, miniredis.RunT(t).Addr(), seed, 400) })
}

// TestLaw compares the Store with renew.lua in a server.
func TestLaw(t *testing.T) {
	server := storetest.Start(t)
	for seed := range uint64(5) {
		server.Do("FLUSHALL")
		compare(t, server.Addr, seed, 1000)
	}
}

// compare makes n random renewals of one key. The server takes the time from
// two more arguments.
func compare(t *testing.T, addr string, seed uint64, n int) {
	const key, clock = "key", "redis.call('TIME')"
	text, err := os.ReadFile("../renew.lua")
	if err != nil || strings.Count(string(text), clock) != 1 {
		t.Fatalf("the script must have %s once (%v)", clock, err)
	}
	script := strings.Replace(string(text), clock, "{ ARGV[#ARGV - 1], ARGV[#ARGV] }", 1)
	client := storetest.Connect(t, addr)
	server := fleet.Valkey(client)
	var memory partition
	r := renewals{Rand: rand.New(rand.NewPCG(seed, 0)), at: time.Unix(1764000000, 0), last: make(map[string][]string)}
	r.members = 1 + r.IntN(60)
	for i := range n {
		args := r.next()
		renewed := memory
		got, gotErr := renewed.renew(args, r.at)
		want, wantErr := server.Eval(t.Context(), script, []string{key},
			append(args, strconv.FormatInt(r.at.Unix(), 10), strconv.Itoa(r.at.Nanosecond()/1000)))
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !equal(got, want) {
			t.Fatalf("seed %d, renewal %d: %q\nStore  %q %v\nserver %q %v", seed, i, args, got, gotErr, want, wantErr)
		}
		if gotErr == nil {
			memory = renewed
			r.last[args[0]] = got
		}
		stored, err := client.Do(t.Context(), client.B().Hgetall().Key(key).Build()).AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		delete(stored, "format")
		for name, value := range memory.fields() {
			if !equal([]string{stored[name]}, []string{value}) {
				t.Fatalf("seed %d, renewal %d: %q\n%s is %q, and %q in the server", seed, i, args, name, value, stored[name])
			}
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Fatalf("the Store does not have %q", stored)
		}
	}
}

// equal reports whether texts are the same, or are the same numbers. A field
// that there is not is like zero.
func equal(a, b []string) bool {
	return slices.EqualFunc(a, b, func(a, b string) bool {
		x, errX := strconv.ParseFloat(cmp.Or(a, "0"), 64)
		y, errY := strconv.ParseFloat(cmp.Or(b, "0"), 64)
		return a == b || x == y && errX == nil && errY == nil
	})
}

// fields returns the fields of the hash.
func (p *partition) fields() map[string]string {
	fields := make(map[string]string)
	v := reflect.ValueOf(*p)
	for i := range v.NumField() {
		switch name, field := v.Type().Field(i).Name, v.Field(i); {
		case field.Kind() == reflect.String:
			fields[name] = field.String()
		case field.Kind() == reflect.Float64:
			fields[name] = text(field.Float())
		case field.Type() == reflect.TypeFor[sum]():
			fields[name], fields[name+"Before"] = text(field.Field(0).Float()), text(field.Field(1).Float())
		}
	}
	return fields
}

// Renewals are random ones by several members.
type renewals struct {
	*rand.Rand
	members int
	wanted  float64 // send tokens
	at      time.Time
	last    map[string][]string // replies
}

// next returns the arguments of the next renewal, and lets some time pass.
func (r *renewals) next() []string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	whole := func(n int) string { return strconv.Itoa(r.IntN(n)) }
	flag := func(oneIn int) string { return pick(r, oneIn, "1", "0") }
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
	id := "process" + whole(r.members)
	had, ok := r.last[id]
	if !ok || r.one(50) { // it has just started
		had = strings.Fields("? 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0")
		had[0] = pick(r, 4, "an older epoch", "")
	}
	settings, lease, capacity := "Lease 400ms and 500 retry tokens", "400", "500"
	if r.one(20) {
		settings, lease, capacity = "others "+strings.Repeat("x", r.IntN(200)), pick(r, 2, "50", "10000"), "300"
	}
	args := []string{
		id, lease, capacity, pick(r, 3, pick(r, 4, "1000000000", "50"), "0"), whole(600),
		whole(100), whole(10), whole(5), whole(5), number(1000 * r.Float64()), whole(100),
		pick(r, 3, number(200*r.Float64()), "-1"), flag(4), number(r.wanted * r.Float64()),
		pick(r, 50, "1000000", had[2]), had[4],
		whole(20), whole(40), whole(30),
		flag(20), pick(r, 20, whole(60000), "0"), "60000", pick(r, 3, "0", had[7]),
		settings, pick(r, 10, pick(r, 3, "cubic", ""), "scaled"),
		had[17], had[18], number(pick(r, 2, 0, r.Float64())),
		had[0], had[20], whole(40),
		pick(r, 3, pick(r, 20, strings.Repeat("x", 5000), "said "+whole(100)), ""), whole(5000),
	}
	if r.one(20) { // some number makes no sense
		i := [...]int{3, 4, 5, 8, 11, 13, 14, 15, 16, 18, 20, 25, 26, 27, 29, 30, 32}[r.IntN(17)]
		args[i] = [...]string{"", "nan", "-1", "1000000000000000000"}[r.IntN(4)]
	}
	return args
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

var _ fleet.Client = (*Store)(nil)
