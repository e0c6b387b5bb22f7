package delivery

import (
	"math"
	"slices"
	"strings"
)

// A BackoffFunction shapes the delays of a delivery policy's backoff phase
// between minDelayTarget and maxDelayTarget. Amazon SNS, "Message delivery
// retries", names four functions and shows their graphs, but not their
// formulas.
type BackoffFunction string

// The functions. k is 0 to n-1 for the n retries of the phase, and the delays
// go from lo to hi. The delay of a single retry is lo.
const (
	Arithmetic  BackoffFunction = "arithmetic"  // lo + (hi-lo) * k(k+1) / (n(n-1))
	Exponential BackoffFunction = "exponential" // lo + (hi-lo) * (2^k-1) / (2^(n-1)-1)
	Geometric   BackoffFunction = "geometric"   // lo * (hi/lo)^(k/(n-1))
	Linear      BackoffFunction = "linear"      // lo + (hi-lo) * k / (n-1)
)

// backoffFunctions has all functions: parsing, validation and the delays follow
// from it. n is 2 or more.
var backoffFunctions = map[BackoffFunction]func(k, n, lo, hi float64) float64{
	Arithmetic: func(k, n, lo, hi float64) float64 { return lo + (hi-lo)*(k/n)*((k+1)/(n-1)) },
	Exponential: func(k, n, lo, hi float64) float64 {
		// The fraction is reduced by 2^(n-1), which would overflow a float64 for
		// many retries.
		first := math.Exp2(1 - n)
		return lo + (hi-lo)*(math.Exp2(k-(n-1))-first)/(1-first)
	},
	Geometric: func(k, n, lo, hi float64) float64 { return lo * math.Pow(hi/lo, k/(n-1)) },
	Linear:    func(k, n, lo, hi float64) float64 { return lo + (hi-lo)*k/(n-1) },
}

// limitBackoffFunction names them for errors.
var limitBackoffFunction = func() string {
	var names []string
	for f := range backoffFunctions {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return "one of " + strings.Join(names, ", ")
}()
