package admission

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/tokens"
	"example.com/awsretry/internal/wait"
)

func newPartition() *Partition {
	return &Partition{
		Quota: tokens.NewQuota(tokens.QuotaConfig{Capacity: 10}),
		Pacer: pacer.New(pacer.Config{
			Beta: 0.7, ScaleConstant: 0.4, Smoothing: 0.8, MinRate: 1, MinCapacity: 1, Interval: time.Second / 2,
		}),
	}
}

func request(ctx context.Context) (*http.Request, *wait.Context) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://service.test/", nil)
	if err != nil {
		panic(err)
	}
	c := wait.Of(req)
	return req, &c
}

// Tokens have one owner, which puts them back or gives them up once.
func TestPermitOwnsItsTokens(t *testing.T) {
	for _, putBack := range []bool{true, false} {
		p, want := newPartition(), 3
		if putBack {
			want = 10
		}
		var permit Permit
		if err := p.Quota.Lend(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		permit.Own(p, 7)
		moved := permit.Move()
		permit.Release(!putBack)
		for range 2 {
			moved.Release(putBack)
		}
		if got := p.Quota.Tokens(); got != want {
			t.Errorf("Release(%v): %d tokens, want %d", putBack, got, want)
		}
	}
}

// A gate that closes while a request waits in line for a send token delays it, too.
// The token is put back until the gate opens.
func TestGateClosesDuringTheWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := newPartition(), time.Now()
		p.Pacer.UpdateNow(true) // one request per second from now on, and the first must wait
		time.AfterFunc(time.Second/10, func() { p.Gate.Close(time.Now(), time.Minute, 0) })
		var permit Permit
		req, caller := request(t.Context())
		err := permit.Admit(p, caller, req, true)
		waited := time.Since(start)
		if err != nil || !permit.SendToken || permit.Waited != waited || waited < time.Minute {
			t.Errorf("%v after %v, %+v", err, waited, permit)
		}
	})
}

// A wait that would end after the deadline does not begin. A canceled wait ends at
// once, with the cause.
func TestAdmitRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := newPartition(), time.Now()
		p.Gate.Close(start, time.Minute, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var permit Permit
		req, late := request(ctx)
		if err := permit.Admit(p, late, req, false); !errors.Is(err, pacer.ErrRateLimited) || !errors.Is(err, pacer.ErrTooLate) {
			t.Errorf("%v", err)
		}
		gone := errors.New("the caller left")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(gone) })
		req, canceled := request(ctx)
		if err := permit.Admit(p, canceled, req, false); err != gone || time.Since(start) != time.Second || p.HeldBack() != 0 {
			t.Errorf("%v after %v, %d are held back", err, time.Since(start), p.HeldBack())
		}
	})
}
