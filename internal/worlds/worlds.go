// Package worlds runs a test in worlds that are drawn at random from a seed, in
// virtual time.
package worlds

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
)

// SeedVariable is the environment variable with the seed of the first world. If
// it is not set, the seed is 1.
const SeedVariable = "WORLDS_SEED"

// Each runs test in n worlds, and in a tenth of them with -short. The name of a
// subtest is the seed of its world.
func Each(t *testing.T, n int, test func(t *testing.T, r *rand.Rand)) {
	if testing.Short() {
		n = max(n/10, 1)
	}
	first := uint64(1)
	if text := os.Getenv(SeedVariable); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s is %q; it must be a number, 0 or above", SeedVariable, text)
		}
	}
	for seed := first; seed < first+uint64(n); seed++ {
		One(t, seed, test)
	}
}

// One runs test in the world of a seed.
func One(t *testing.T, seed uint64, test func(t *testing.T, r *rand.Rand)) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, rand.New(rand.NewPCG(seed, 0))) })
	})
}

// Pick returns one of the choices.
func Pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// Chance returns true in that share of the worlds.
func Chance(r *rand.Rand, share float64) bool { return r.Float64() < share }
