// Package laws_test has the laws of a Transport: promises that are checked in
// worlds drawn at random, by comparing them with net/http alone.
package laws_test

import (
	"time"

	"example.com/awsretry"
)

// delayed returns a Backoff whose every delay is d.
func delayed(d time.Duration) awsretry.Backoff {
	return awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return d })
}
