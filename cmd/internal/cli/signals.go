// Package signals handles the signals of Unix that would end the process in the
// middle of its work: SIGPIPE and SIGHUP.
package cli
