// Package simulate shows what a retry setting does to a service and to its
// callers before it is deployed. A fleet of clients calls a modeled service
// through the real [awsretry.Transport], or through another library's
// RoundTripper, in virtual time, once for each setting. The result is a table
// and a picture.
//
// # Virtual time
//
// The clients run inside a bubble of testing/synctest in an ordinary binary:
// [synctest.Test] gets a testing.T that no test made. Every time.Now, timer and
// deadline of the Transport then follows the bubble's clock, which jumps to the
// next timer as soon as every goroutine waits. The alternatives are worse:
//
//   - A clock of our own needs a seam in the library wherever it reads the
//     time, sleeps or sets a timer, also inside the contexts that it makes. The
//     hot path would pay for the seam, and the simulation would measure the
//     library with another clock and another scheduler. The bubble measures the
//     library as it is.
//   - A generated test binary needs the Go toolchain on the user's machine and
//     a build for each run.
//   - testing.RunTests runs nothing in an ordinary binary: only testing.M.Run
//     fills the list of GOMAXPROCS values that it iterates over, and that
//     function parses the command line, prints PASS and may exit.
//
// The zero testing.T prints nothing, because nothing logs to it or fails it.
// The tests of this package use the same way as the binary, so they would
// notice a Go release that changes this.
//
// # Same seed, same result
//
// A bubble decides when goroutines run, but not the order of goroutines that
// wake at the same instant. So no two of them do: each caller owns a residue
// class of the nanosecond (see grid), wakes only at instants of its own class,
// and its deadlines fall between the classes. What two callers share is
// therefore touched in the order of virtual time, whatever the number of
// processors. Two things happen at other instants and do not depend on the
// order either. A send token may arrive at any instant: the rate limiter's line
// is the same whichever of two things at one instant comes first, and a caller
// with a token continues at an instant of its own. And the run ends at an
// instant after which nothing counts.
//
// The clients of the setting fleet also renew their leases, each on a goroutine
// of its own. A renewal begins and ends at instants of a class of its client's,
// so that it reads and grants while no caller runs. A send token that arrives at
// the same instant does matter here, because the renewal counts those in line,
// so the renewal waits until that has happened.
//
// Random numbers are functions of the seed and of their purpose, so that every
// setting faces the same arrivals and the same latencies. The library's own
// jitter draws from a source without a seed, so the simulation builds the same
// delays from the library's public types with a seeded jitter. What is added to
// a Retry-After is decided by the context of the call. A RoundTripper of the
// caller's ([scenario.Setting].New) may draw from a source of its own; its
// result is as reproducible as that source.
package simulate
