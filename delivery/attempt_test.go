package delivery

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// fourPhases has a retry in each phase.
const fourPhases = `{"healthyRetryPolicy": {"numRetries": 4, "numNoDelayRetries": 1, "numMinDelayRetries": 1,
	"numMaxDelayRetries": 1, "minDelayTarget": 2, "maxDelayTarget": 8}}`

func TestAttempt(t *testing.T) {
	for _, tt := range []struct {
		name           string
		status, number int
		class          awsretry.Class
		stop           awsretry.Stop
		delay          time.Duration
	}{
		{"delivered", 204, 5, awsretry.Success, awsretry.StopSuccess, 0},
		{"permanent", 404, 1, awsretry.Permanent, awsretry.StopPermanent, 0},
		{"no delay", 503, 1, awsretry.Transient, "", 0},
		{"least delay", 503, 2, awsretry.Transient, "", 2 * time.Second},
		{"backoff", 429, 3, awsretry.Throttled, "", 2 * time.Second},
		{"longest delay", 0, 4, awsretry.Transient, "", 8 * time.Second},
		{"the last attempt", 503, 5, awsretry.Transient, awsretry.StopMaxAttempts, 0},
		{"one too many", 503, 6, awsretry.Transient, awsretry.StopMaxAttempts, 0},
	} {
		run(t, tt.name, func(t *testing.T) {
			end := responding(tt.status)
			var seen []awsretry.Attempt
			tr := &Transport{
				Policy: parse(t, fourPhases), Base: end, Jitter: awsretry.NoJitter,
				Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
				DeadLetter: func(context.Context, DeadLetter) error {
					t.Error("DeadLetter was called")
					return nil
				},
			}
			got := tr.Attempt(post(t, "http://endpoint.test/", "hello"), tt.number)
			if got.Class != tt.class || got.Stop != tt.stop || got.Delay != tt.delay || got.Number != tt.number || got.MaxAttempts != 5 {
				t.Errorf("attempt %d of %d: class %v, stop %q, delay %v", got.Number, got.MaxAttempts, got.Class, got.Stop, got.Delay)
			}
			if (got.Response == nil) == (got.Err == nil) || (tt.status == 0) != errors.Is(got.Err, errRefused) {
				t.Errorf("response %v, error %v", got.Response, got.Err)
			}
			if got.Response != nil {
				got.Response.Body.Close()
			}
			if len(end.got) != 1 || end.got[0].Body != "hello" {
				t.Errorf("the endpoint got %v", end.got)
			}
			if len(seen) != 1 || seen[0].Number != tt.number || seen[0].Stop != tt.stop || seen[0].Delay != tt.delay {
				t.Errorf("Observe saw %+v", seen)
			}
		})
	}
}

func TestAttemptThatIsNotMade(t *testing.T) {
	for _, tt := range []struct {
		name   string
		number int
		change func(*Transport, *http.Request) *http.Request
		stop   awsretry.Stop
		text   string
	}{
		{"number 0", 0, nil, awsretry.StopPermanent, "number is 0; it must be 1 or more"},
		{"invalid Transport", 1, func(tr *Transport, req *http.Request) *http.Request {
			tr.AttemptTimeout = -1
			return req
		}, awsretry.StopPermanent, "AttemptTimeout is -1ns"},
		{"a redirect is followed", 1, func(_ *Transport, req *http.Request) *http.Request {
			req.Response = respond(302, req)
			return req
		}, awsretry.StopPermanent, "a redirect is a permanent failure"},
		{"canceled", 1, func(_ *Transport, req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			cancel()
			return req.WithContext(ctx)
		}, awsretry.StopCanceled, "context canceled"},
	} {
		run(t, tt.name, func(t *testing.T) {
			end := responding(200)
			tr := &Transport{Base: end}
			req := post(t, "http://endpoint.test/", "hello")
			body := httpfake.NewBody(strings.NewReader("hello"))
			req.Body = body
			if tt.change != nil {
				req = tt.change(tr, req)
			}
			got := tr.Attempt(req, tt.number)
			if got.Stop != tt.stop || got.Err == nil || !strings.Contains(got.Err.Error(), tt.text) {
				t.Errorf("stop %q, error %v", got.Stop, got.Err)
			}
			if len(end.got) != 0 || body.Closes() != 1 {
				t.Errorf("%d requests were sent, the body was closed %d times", len(end.got), body.Closes())
			}
		})
	}
}
