package awsretry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  awsretry.Error
		want string
	}{
		{awsretry.Error{Attempts: 3, Stop: awsretry.StopMaxAttempts, Err: io.EOF},
			"awsretry: gave up after 3 attempts (max_attempts): EOF"},
		{awsretry.Error{Attempts: 2, Stop: awsretry.StopCanceled, Err: context.Canceled},
			"awsretry: canceled after 2 attempts: context canceled"},
		{awsretry.Error{Stop: awsretry.StopQuota, Err: awsretry.ErrQuotaExceeded},
			"awsretry: not sent (quota): retry capacity exceeded"},
		{awsretry.Error{Attempts: 1, Stop: awsretry.StopBody,
			Err: &url.Error{Op: "Put", URL: "http://me:secret@h/p?key=secret", Err: io.EOF}},
			`awsretry: gave up after 1 attempt (body): Put "http://h/p?…": EOF`},
		{awsretry.Error{Attempts: 1, Stop: awsretry.StopPermanent},
			"awsretry: gave up after 1 attempt (permanent): no error"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The texts of errors that end a call between two attempts.
func TestErrorTextOfRoundTrip(t *testing.T) {
	slowDown := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 400, http.NoBody, "X-Amzn-ErrorType", "SlowDown"), nil
	})
	hanging := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, fmt.Errorf("base: %w", req.Context().Err())
	})
	for _, tt := range []struct {
		base  httpfake.Base
		cause error // of the end of the context after 10 s
		want  string
	}{
		{httpfake.Statuses(503), errors.New("enough"), "awsretry: canceled after 1 attempt: context canceled: enough; " +
			"before that: the last response was 503 Service Unavailable"},
		{slowDown, context.Canceled, "awsretry: canceled after 1 attempt: context canceled; " +
			"before that: the last response was 400 Bad Request (SlowDown)"},
		{hanging, nil, "awsretry: gave up after 2 attempts (max_attempts): the attempt took longer than AttemptTimeout, 1s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Second, func() { cancel(tt.cause) })
			delay := time.Minute
			if tt.cause == nil {
				delay = 0
			}
			tr := &awsretry.Transport{Base: tt.base, MaxAttempts: 2, AttemptTimeout: time.Second, Backoff: delayed(delay)}
			_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
			if fmt.Sprint(err) != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestErrorKinds(t *testing.T) {
	for _, tt := range []struct {
		err                awsretry.Error
		timeout, temporary bool
	}{
		{awsretry.Error{Stop: awsretry.StopPermanent, Err: io.EOF}, false, false},
		{awsretry.Error{Stop: awsretry.StopMaxAttempts, Err: io.EOF}, false, true},
		{awsretry.Error{Stop: awsretry.StopMaxAttempts, Err: context.DeadlineExceeded}, true, true},
		{awsretry.Error{Stop: awsretry.StopCanceled, Err: context.DeadlineExceeded}, true, false},
		{awsretry.Error{Stop: awsretry.StopCanceled, Err: context.Canceled}, false, false},
		{awsretry.Error{Stop: awsretry.StopQuota, Err: awsretry.ErrQuotaExceeded}, false, true},
	} {
		if tt.err.Timeout() != tt.timeout || tt.err.Temporary() != tt.temporary {
			t.Errorf("%v: Timeout is %v, Temporary is %v", &tt.err, tt.err.Timeout(), tt.err.Temporary())
		}
	}
}
