package fleet_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// A Fleet that New did not make is an error, and does nothing.
func TestZeroFleet(t *testing.T) {
	shared := new(fleet.Fleet)
	tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
	if err := tr.Validate(); err == nil || !strings.Contains(err.Error(), "New must make it") {
		t.Errorf("Validate returned %v", err)
	}
	shared.Join(nil)
	if err := shared.Close(); err != nil {
		t.Errorf("Close returned %v", err)
	}
}

// A panic in OnError ends neither the process nor the renewals.
func TestOnErrorPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		failing.Store(true)
		calls := 0
		shared := fleet.New(clientFunc(func(context.Context, []string) ([]string, error) {
			if failing.Load() {
				return nil, errors.New("boom")
			}
			return reply(nil), nil
		}), fleet.Config{OnError: func(string, error) {
			calls++
			panic("OnError")
		}})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
		send(t, tr)
		time.Sleep(time.Second)
		failing.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if state, _ := tr.State(host); !state.Leased || calls != 1 {
			t.Errorf("leased is %v after %d errors", state.Leased, calls)
		}
	})
}

// What the store has does not come raw into an error.
func TestErrorsAreShown(t *testing.T) {
	boom := errors.New("boom \x1b[31m\n\x00\xff" + strings.Repeat("é", 1000))
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{Latency: time.Millisecond}
		var got []error
		shared := fleet.New(store, fleet.Config{OnError: func(_ string, err error) { got = append(got, err) }})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
		send(t, tr)
		time.Sleep(time.Second)
		store.Refuse(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		runtime.KeepAlive(tr)
		if len(got) != 1 {
			t.Fatalf("OnError was called with %q", got)
		}
		text := got[0].Error()
		if !strings.Contains(text, "boom \ufffd[31m \ufffd\ufffdééé") || len(text) > 410 ||
			strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
			t.Errorf("the error is %q", text)
		}
		if !errors.Is(got[0], boom) {
			t.Error("the error is not that of Eval")
		}
	})
}

// A capacity that the store cannot count is an error, and the Transport works
// alone.
func TestHugeCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{}
		var faults faultLog
		shared := fleet.New(store, fleet.Config{OnError: faults.add})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared, Quota: awsretry.QuotaConfig{Capacity: 1e9 + 1}}
		send(t, tr)
		time.Sleep(time.Second)
		runtime.KeepAlive(tr)
		if got := strings.Join(faults.all(), "\n"); !strings.Contains(got, "Quota.Capacity is 1000000001") ||
			store.Evals() > 0 {
			t.Errorf("the errors are %q after %d renewals", got, store.Evals())
		}
	})
}
