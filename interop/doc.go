// Package interop has only tests: awsretry with the servers, proxies and
// libraries of others. make check runs them, and make interop with the race
// detector. Those of the SDKs of services are in clients.
package interop
