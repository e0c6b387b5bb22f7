// Package interop has only tests: awsretry with the clients, servers and
// libraries of others, and with the faults of real networks. Run them with
// go test -race, or with make interop.
package interop
