// Package clients has only tests: awsretry with the SDKs of services, which
// take long to compile, and with toxiproxy. make check runs them, and make
// interop with a minute of chaos.
package clients
