// Package simulate shows what a retry setting does to a service and to its
// callers before it is deployed. A fleet of clients calls a modeled service
// through the real [awsretry.Transport], or through another library's
// RoundTripper, in virtual time, once for each setting. The result is a table
// and a picture.
//
// # Virtual time
//
// The clients run inside a bubble of testing/synctest in an ordinary binary:
// [synctest.Test] gets a testing.T that does not come from a test. Every time.Now,
// timer and deadline of the Transport then follows the bubble's clock, which jumps
// to the next timer as soon as every goroutine waits. A custom clock would need
// a seam in the library wherever it reads the time, sleeps or sets a timer.
// A generated test binary would need the Go toolchain on the user's machine. The
// tests of this package use the same path as the binary, so they would notice a Go
// release that changes it.
//
// # Same seed, same result
//
// A bubble decides when goroutines run, but not the order of goroutines that wake
// at the same instant. So no two of them wake at the same instant: each caller owns
// a residue class of the nanosecond (see grid), wakes only at instants of its own
// class, and its deadlines fall between the classes. Three kinds of events happen at
// other instants, but their order does not matter. A send token may arrive at any
// instant, and the delay that Retry-After asks for may end at any; the caller
// continues at its own instant. And the run ends at an instant after which nothing
// counts.
//
// With the setting fleet, clients also renew their leases, each on its own
// goroutine, at instants of another class that the client owns. Here a send token
// that arrives at the same instant matters, because the renewal counts the callers
// in line, so the renewal waits until the token has arrived.
//
// Random numbers are functions of the seed and of their purpose, so that every
// setting faces the same arrivals and the same latencies. The library's own
// backoff draws from a source without a seed, so the simulation builds the same
// delays from the library's public types with a seeded jitter. A custom
// RoundTripper ([scenario.Setting].New) may draw from its own source; its result
// is as reproducible as that source.
package simulate
