// Package simulate shows what a retry setting does to a service and to its callers before it is deployed: a fleet of
// clients calls a modelled service through the real [awsretry.Transport], in virtual time, once for each setting, and
// what they lived through comes back as a table and as pictures.
//
// # Virtual time
//
// The clients run inside a bubble of testing/synctest, in an ordinary binary: [synctest.Test] is called with a
// testing.T that no test made. Every time.Now, timer and deadline of the Transport then goes by the bubble's clock, which
// jumps to the next timer as soon as nobody has anything left to do. The alternatives were weighed:
//
//   - An event-driven clock of our own needs a seam in the library wherever it reads the time, sleeps or sets a
//     timer, also inside the contexts it makes. The hot path would pay for the seam, and what is measured would be the
//     library with another clock and another scheduler in it. The bubble measures the library as it is.
//   - A generated test binary needs the Go toolchain on the user's machine and a build for each run.
//   - testing.RunTests runs nothing in an ordinary binary: the list of GOMAXPROCS values that it goes through is filled
//     by testing.M.Run alone, and that one parses the command line, prints PASS and may end the process.
//
// The zero testing.T costs nothing and prints nothing, since nothing is ever logged to it or failed on it. The tests of
// this package go the same way as the binary does, so a Go release that changed this would be noticed there first.
//
// # Same seed, same result
//
// A bubble decides when goroutines run, not in which order those run that wake at the same instant. So no two of them
// do: each caller owns a residue class of the nanosecond (see grid), it wakes at instants of its own class only, and
// its deadlines fall between the classes. Whatever two callers share is therefore touched in the order of virtual
// time, whatever the number of processors. Two things are left to other instants, and do not depend on the order either:
// a send token's, because the rate limiter's line is the same whichever of two things at one instant comes first, and
// because who was granted a token goes on at an instant of its own; and the end of the run, after which nothing counts.
//
// Random numbers are functions of the seed and of what they are for, so that every setting faces the same arrivals and
// the same latencies. The library's own jitters draw from a source that cannot be seeded; the same pauses are built
// from its public types with seeded jitters instead.
package simulate
