package contract

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
)

// StopOf returns why no further attempt was made, as the error says it or else
// the record of the response. It is "" if neither says anything.
func StopOf(resp *http.Response, err error) awsretry.Stop {
	if e := new(awsretry.Error); errors.As(err, &e) {
		return e.Stop
	}
	record, _ := awsretry.Outcome(resp)
	return record.Stop
}

// TokensOf returns how many retry tokens the host of httpfake.Request has left.
func TokensOf(t testing.TB, tr *awsretry.Transport) int {
	t.Helper()
	state, ok := tr.State("service.example")
	if !ok {
		t.Fatal("there is no partition for service.example")
	}
	return state.Tokens
}

// Delay returns a Backoff whose every delay is d.
func Delay(d time.Duration) awsretry.Backoff {
	return awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return d })
}
