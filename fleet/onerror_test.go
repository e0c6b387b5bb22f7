package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
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
		if state, _ := tr.State(host); !state.Leased || calls != 1 {
			t.Errorf("leased is %v after %d errors", state.Leased, calls)
		}
	})
}
