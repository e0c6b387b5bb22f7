package simulate

import (
	"sync/atomic"
	"time"

	"example.com/awsretry"
)

// A sampled is the last sample of a client's buckets. It is reused while the client
// is idle, which is most of the time in a large fleet.
type sampled struct {
	begun, ended atomic.Int64 // calls

	// Used only by the run's first goroutine.
	state awsretry.State
	ok    bool
	calls int64 // that had begun, and ended; -1: the state may change without calls
}

// state returns the state of the client's buckets, if it has used them. Shared
// buckets may change at any time.
func (c *client) state(shared bool) (awsretry.State, bool) {
	s := &c.sampled
	calls := s.ended.Load()
	if calls == s.calls && calls == s.begun.Load() {
		return s.state, s.ok
	}
	s.state, s.ok = c.transport.(*awsretry.Transport).State(host)
	s.calls = -1
	if !shared && !s.state.Limited && calls == s.begun.Load() {
		s.calls = calls
	}
	return s.state, s.ok
}

// sample records the clients' buckets at t.
func (f *fleet) sample(t time.Duration, m maker) {
	if m.capacity == 0 && !m.limits {
		return
	}
	var tokens, held, rate, members float64
	var leased, limited int
	for _, c := range f.clients {
		state, ok := c.state(m.shared != nil)
		if !ok {
			tokens += float64(m.capacity) // unused, so full
			continue
		}
		tokens += float64(state.Tokens)
		if state.Fleet.Leased {
			leased++
			held += float64(state.Tokens)
			members += float64(state.Fleet.Members)
		}
		if state.Limited {
			limited++
			rate += sendRate(state)
		}
	}
	s := &f.record.series
	value := func(v float64) Sample { return Sample{At: Span(t), Value: v} }
	switch {
	case m.capacity == 0:
	case m.shared != nil:
		s.Tokens = append(s.Tokens, value(m.shared.tokens(m.capacity)+held))
	default:
		s.Tokens = append(s.Tokens, value(tokens/float64(len(f.clients))))
	}
	if m.limits {
		s.SendRate = append(s.SendRate, Sample{At: Span(t), Value: rate / float64(max(limited, 1)), Limited: limited})
	}
	if m.shared != nil {
		s.Members = append(s.Members, value(members/float64(max(leased, 1))))
	}
}

// sendRate returns the rate of a client. The rate of a lease ends with the lease.
func sendRate(s awsretry.State) float64 {
	if s.Fleet.Leased {
		return s.Fleet.Rate / float64(max(s.Fleet.Members, 1))
	}
	return s.SendRate
}
