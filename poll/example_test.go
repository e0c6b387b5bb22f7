package poll_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// An operation is what a program needs to go on polling after it died.
type operation struct {
	ID       string    // at the service
	Deadline time.Time // of the whole wait, over all processes
}

// save writes the operation before the first check: a new file is renamed, so
// that a crash leaves a whole one or none.
func save(file string, op operation) error {
	data, err := json.Marshal(op)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// resume waits for the operation in the file, and forgets it when it is done. It
// returns nil if there is none.
func resume(ctx context.Context, file string, check func(context.Context, string) (poll.State, error)) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var op operation
	if err := json.Unmarshal(data, &op); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, op.Deadline)
	defer cancel()
	err = poll.Until(ctx, poll.Config{}, func(ctx context.Context) (poll.State, error) { return check(ctx, op.ID) })
	if err != nil {
		return err
	}
	return os.Remove(file)
}

// A poller that dies is replaced by the next process, which calls resume when it
// starts. A check only reads, so that it may be made again.
func Example_resume() {
	dir, err := os.MkdirTemp("", "poll")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "operation")
	if err := save(file, operation{ID: "export-7", Deadline: time.Now().Add(time.Minute)}); err != nil {
		fmt.Println(err)
		return
	}

	first, die := context.WithCancel(context.Background())
	err = resume(first, file, func(_ context.Context, id string) (poll.State, error) {
		fmt.Println("the first process asks for", id)
		die()
		return poll.NotReady, nil
	})
	fmt.Println(errors.Is(err, context.Canceled))

	err = resume(context.Background(), file, func(_ context.Context, id string) (poll.State, error) {
		fmt.Println("the second process asks for", id)
		return poll.Done, nil
	})
	fmt.Println(err)
	// Output:
	// the first process asks for export-7
	// true
	// the second process asks for export-7
	// <nil>
}
