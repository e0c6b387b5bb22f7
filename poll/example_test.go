package poll_test

import (
	"context"
	"fmt"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/poll"
)

func ExampleUntil() {
	states := []string{"CREATING", "CREATING", "ACTIVE"} // what the service says
	config := poll.Config{
		Backoff:     awsretry.Exponential{Initial: time.Millisecond, Jitter: awsretry.NoJitter},
		MaxAttempts: 10,
		Observe:     func(a poll.Attempt) { fmt.Println(a.Number, a.Waited, a.State) },
	}
	err := poll.Until(context.Background(), config, func(ctx context.Context) (poll.State, error) {
		state := states[0]
		states = states[1:]
		if state == "ACTIVE" {
			return poll.Done, nil
		}
		return poll.NotReady, nil
	})
	fmt.Println(err)
	// Output:
	// 1 1ms not ready
	// 2 2ms not ready
	// 3 4ms done
	// <nil>
}
