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
// next timer as soon as every goroutine waits. A clock of our own would need a
// seam in the library wherever it reads the time, sleeps or sets a timer, and a
// generated test binary the Go toolchain on the user's machine. The tests of
// this package use the same way as the binary, so they would notice a Go release
// that changes it.
//
// # Same seed, same result
//
// A bubble decides when goroutines run, but not the order of goroutines that
// wake at the same instant. So no two of them do: each caller owns a residue
// class of the nanosecond (see grid), wakes only at instants of its own class,
// and its deadlines fall between the classes. Two things happen at other
// instants and do not depend on the order either: a send token may arrive at
// any instant, and a caller with it continues at its own instant; and the
// run ends at an instant after which nothing counts.
//
// The clients of the setting fleet also renew their leases, each on a goroutine
// of its own, at instants of a class of its client's. A send token that arrives
// at the same instant does matter here, because the renewal counts those in
// line, so the renewal waits until that has happened.
//
// Random numbers are functions of the seed and of their purpose, so that every
// setting faces the same arrivals and the same latencies. The library's own
// jitter draws from a source without a seed, so the simulation builds the same
// delays from the library's public types with a seeded jitter. A RoundTripper of
// the caller's ([scenario.Setting].New) may draw from its own source; its
// result is as reproducible as that source.
package simulate
