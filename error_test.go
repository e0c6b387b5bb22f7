package awsretry_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"testing"

	"example.com/awsretry"
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
		{awsretry.Error{Stop: awsretry.StopCanceled, Err: errors.Join(context.Canceled, os.ErrDeadlineExceeded)}, false, false},
		{awsretry.Error{}, false, false},
		{awsretry.Error{Stop: awsretry.StopQuota, Err: awsretry.ErrQuotaExceeded}, false, true},
	} {
		if tt.err.Timeout() != tt.timeout || tt.err.Temporary() != tt.temporary {
			t.Errorf("%v: Timeout is %v, Temporary is %v", &tt.err, tt.err.Timeout(), tt.err.Temporary())
		}
	}
}
