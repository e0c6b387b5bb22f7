// Package interop has only tests: awsretry with the clients, servers and
// libraries of others, and with the faults of real networks. make test
// runs them, make check with the race detector, and make interop with a minute of
// chaos.
package interop
