package tokens

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/waittest"
)

// Callers get tokens that are put back in the order in which they came, and do not
// wait for longer than they want to.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, line := NewQuota(QuotaConfig{Capacity: 10, Part: true}), waittest.NewQueue()
		if !q.Take(10) || q.Take(1) {
			t.Fatal("a new quota does not have 10 tokens")
		}
		gone := errors.New("the caller left")
		ctx, leave := waittest.CancelAfter(t.Context(), 2*time.Second, gone)
		defer leave()
		const long, short = time.Minute, 3 * time.Second
		line.Join(0, func() error { return q.Await(t.Context(), 5, long) })
		line.Join(1, func() error { return q.Await(ctx, 5, long) })
		line.Join(2, func() error { return q.Await(t.Context(), 5, short) })
		line.Join(3, func() error { return q.Await(t.Context(), 5, long) })
		time.Sleep(time.Second)
		q.PutBack(4)
		if q.Take(1) {
			t.Error("a caller overtook the line")
		}
		q.PutBack(1)
		time.Sleep(4 * time.Second)
		q.PutBack(7)
		wantEnds(t, line, end(0, time.Second, nil), end(1, 2*time.Second, gone), end(2, short, ErrQuotaExceeded), end(3, 5*time.Second, nil))
		wantIdle(t, q.bucket)
		if got := q.Tokens(); got != 2 {
			t.Errorf("%d tokens are left, want 2", got)
		}
	})
}
