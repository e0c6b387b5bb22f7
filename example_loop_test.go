package awsretry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
)

// A queue is a client that is not HTTP, and whose send fails twice.
type queue struct{ sent int }

var errBusy = errors.New("busy")

func (q *queue) send(context.Context, string) error {
	if q.sent++; q.sent < 3 {
		return errBusy
	}
	return nil
}

// A Loop retries what is not sent by a RoundTripper. It shares the buckets of
// its Transport.
func ExampleTransport_NewLoop() {
	transport := &awsretry.Transport{
		Backoff: awsretry.Exponential{Initial: time.Millisecond},
		Policy: func(a *awsretry.Attempt) awsretry.Class {
			if errors.Is(a.Err, errBusy) {
				return awsretry.Throttled
			}
			return awsretry.Permanent
		},
	}
	var q queue
	if err := sendAll(context.Background(), transport, &q); err != nil {
		fmt.Println(err)
	}
	state, _ := transport.State("queue")
	fmt.Println(q.sent, "attempts,", state.Tokens, "tokens")
	// Output: 3 attempts, 490 tokens
}

func sendAll(ctx context.Context, transport *awsretry.Transport, q *queue) error {
	call, err := http.NewRequestWithContext(awsretry.WithPartition(ctx, "queue"), "SEND", "", nil)
	if err != nil {
		return err
	}
	loop, err := transport.NewLoop(call)
	if err != nil {
		return err
	}
	defer loop.End()
	for {
		if err := loop.Wait(); err != nil {
			return err
		}
		err := q.send(ctx, "message")
		loop.Classify(nil, "", err)
		loop.Settle()
		delay, stop := loop.Decide()
		if stop != "" {
			return err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
