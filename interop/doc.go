// Package interop holds nothing but tests of awsretry against software that is not ours: real clients, real servers, real
// faults. Run them with go test -race, or with make interop.
package interop
