// Package interop has only tests: awsretry with the servers, proxies and
// libraries of others. make test runs them, except for the longest, which make
// check adds, and make interop runs them with the race detector. Those of the
// SDKs of services are in clients.
package interop
