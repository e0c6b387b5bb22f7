package contract_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// What Prepare starts may go on asking for the deadline of the attempt's
// context, which the time-out brings forward when the attempt is sent.
func TestDeadlineDuringTheSend(t *testing.T) {
	var asking sync.WaitGroup
	done := make(chan struct{})
	tr := retrying(httpfake.Statuses(503, 200))
	tr.AttemptTimeout = time.Minute
	tr.Prepare = func(req *http.Request, _ int) error {
		ctx := req.Context()
		started := make(chan struct{})
		asking.Go(func() {
			close(started)
			for {
				ctx.Deadline()
				select {
				case <-done:
					return
				default:
				}
			}
		})
		<-started
		return nil
	}
	if _, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)); err != nil {
		t.Error(err)
	}
	close(done)
	asking.Wait()
}
