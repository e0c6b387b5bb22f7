package queue

import (
	"net/http"
	"testing"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/deliveryqueue"
)

// A dead letter whose deadline has passed is redriven only with another.
func TestRedriveAfterTheDeadline(t *testing.T) {
	t.Parallel()
	h, db := newHook(t), newDB(t)
	q, err := deliveryqueue.Open(t.Context(), db, deliveryqueue.Config{})
	if err == nil {
		var req *http.Request
		if req, err = http.NewRequest("POST", h.URL, http.NoBody); err == nil {
			_, err = q.Enqueue(t.Context(), req, deliveryqueue.Options{Deadline: time.Unix(1, 0)})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, clitest.Shell{}, db, "work", "--until-empty")
	got := run(t, clitest.Shell{}, db, "redrive", "--json")
	const text = "✗ 1 dead letter not delivered again: the deadline has passed, and --deadline gives another\n"
	if got.Status != cli.Failure || got.Out != `{"redriven":0,"refused":1}`+"\n" || got.Err != text {
		t.Errorf("%+v", got)
	}
	if out := succeed(t, db, "redrive", "--deadline", "1h"); out != "✓ 1 dead letter will be delivered again\n" {
		t.Errorf("with another, it prints\n%s", out)
	}
	succeed(t, db, "work", "--until-empty")
}
