package fleet_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/storetest"
)

// A recorder records what is evaluated.
type recorder struct {
	fleet.Client
	evals []eval
}

type eval struct {
	script     string
	keys, args []string
	at         time.Time
	reply      []string
}

func (r *recorder) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	at := time.Now()
	reply, err := r.Client.Eval(ctx, script, keys, args)
	r.evals = append(r.evals, eval{script, keys, args, at, reply})
	return reply, err
}

// TestMemoryIsLikeAServer compares the replies of a server with those of the
// store in memory. The server takes the time from two more arguments.
func TestMemoryIsLikeAServer(t *testing.T) {
	const renewals = 500
	server := fleet.Valkey(storetest.Connect(t, storetest.Start(t).Addr))
	r := recorder{Client: &fleettest.Store{}}
	synctest.Test(t, func(t *testing.T) {
		if err := fleet.RandomRenewals(t.Context(), &r, 1, renewals); err != nil {
			t.Fatal(err)
		}
	})
	if len(r.evals) != renewals {
		t.Fatalf("%d scripts ran, want %d", len(r.evals), renewals)
	}
	for i, e := range r.evals {
		const now = "redis.call('TIME')"
		if strings.Count(e.script, now) != 1 {
			t.Fatalf("the script must have %s once", now)
		}
		script := strings.ReplaceAll(e.script, now, "{ ARGV[#ARGV - 1], ARGV[#ARGV] }")
		args := append(slices.Clip(e.args), strconv.FormatInt(e.at.Unix(), 10), strconv.Itoa(e.at.Nanosecond()/1000))
		reply, err := server.Eval(t.Context(), script, e.keys, args)
		if err != nil {
			t.Fatalf("renewal %d: %v", i, err)
		}
		if !slices.Equal(reply, e.reply) {
			t.Fatalf("renewal %d of %s at %v:\nserver %q\nmemory %q", i, e.keys, e.at, reply, e.reply)
		}
	}
}

func TestMemoryRefusesAnotherFormat(t *testing.T) {
	stores := map[string]fleet.Client{
		"memory": &fleettest.Store{},
		"server": fleet.Valkey(storetest.Connect(t, storetest.Start(t).Addr)),
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			if err := fleet.RandomRenewals(t.Context(), store, 1, 0); err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"host0", "host1"} {
				const script = "return { redis.call('HSET', KEYS[1], 'format', ARGV[1]) .. " +
					"redis.call('HSET', KEYS[1], 'format', 3) }"
				reply, err := store.Eval(t.Context(), script, []string{"awsretry:{" + host + "}"}, []string{"2"})
				if err != nil || !slices.Equal(reply, []string{"10"}) {
					t.Fatalf("HSET returned %q and %v; want 1 for a new field and 0 for another value", reply, err)
				}
			}
			err := fleet.RandomRenewals(t.Context(), store, 1, 1)
			if err == nil || !strings.Contains(err.Error(), "has the format 3, not 1") {
				t.Errorf("a renewal returned %v; want an error that names the format", err)
			}
		})
	}
}

func TestMemoryFormatsNumbers(t *testing.T) {
	const script = "local texts = {} " +
		"for i, v in ipairs(ARGV) do texts[i] = string.format('%.17g', tonumber(v)) end return texts"
	numbers := []string{
		"0", "-0", "1", "-1", "0.1", "-2.5", "1e-5", "123456789012345", "999999999999999",
		"1e15", "1e16", "1e17", "1e21", "1.5e300",
		"1764000000123", "0x10", "3.0000000000000004", "inf", "-inf",
	}
	reply, err := new(fleettest.Store).Eval(t.Context(), script, nil, numbers)
	if err != nil {
		t.Fatal(err)
	}
	want, err := fleet.Valkey(storetest.Connect(t, storetest.Start(t).Addr)).Eval(t.Context(), script, nil, numbers)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(reply, want) {
		t.Errorf("memory %q\nserver %q", reply, want)
	}
}

func TestMemoryExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const script = "if ARGV[1] then redis.call('HSET', KEYS[1], 'f', ARGV[1]) redis.call('PEXPIRE', KEYS[1], 1000) end " +
			"return { redis.call('HGET', KEYS[1], 'f') or 'none' }"
		var store fleettest.Store
		eval := func(args ...string) string {
			t.Helper()
			reply, err := store.Eval(t.Context(), script, []string{"key"}, args)
			if err != nil || len(reply) != 1 {
				t.Fatalf("Eval returned %q and %v", reply, err)
			}
			return reply[0]
		}
		eval("a")
		time.Sleep(time.Second - time.Nanosecond)
		if got := eval(); got != "a" {
			t.Errorf("before it expires the key is %q, want a", got)
		}
		time.Sleep(time.Nanosecond)
		if got := eval(); got != "none" {
			t.Errorf("after it has expired the key is %q", got)
		}
	})
}

func BenchmarkMemory(b *testing.B) {
	var store fleettest.Store
	r := recorder{Client: &store}
	if err := fleet.RandomRenewals(b.Context(), &r, 1, 1); err != nil {
		b.Fatal(err)
	}
	e := r.evals[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Eval(b.Context(), e.script, e.keys, e.args); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "scripts/s")
}
