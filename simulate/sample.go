package simulate

import (
	"sync/atomic"
	"time"

	"example.com/awsretry"
)

// A sampled is the last sample of a client's buckets. It is reused while the
// client is idle, as most clients of a large fleet are most of the time.
type sampled struct {
	begun, ended atomic.Int64 // calls

	// Used only by the run's first goroutine.
	state awsretry.State
	ok    bool
	calls int64 // that had begun, and ended; -1: the state may change without calls
}

func (s *sampled) begin() { s.begun.Add(1) }
func (s *sampled) end()   { s.ended.Add(1) }

// state returns the state of the client's buckets, if it has used them. Those
// that it shares may change at any time.
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

// sample records the clients' buckets at the end of the slot before t.
func (f *fleet) sample(t time.Duration, m maker) {
	if m.capacity == 0 && !m.limits {
		return
	}
	s := &f.record.slots[(t-1)/slot]
	s.sampled = true
	var tokens, held, rate, members float64
	for _, c := range f.clients {
		state, ok := c.state(m.shared != nil)
		if !ok {
			tokens += float64(m.capacity) // unused, so full
			continue
		}
		tokens += float64(state.Tokens)
		if state.Leased {
			s.leased++
			held += float64(state.Tokens)
			members += float64(state.Members)
		}
		if state.Limited {
			s.limited++
			rate += sendRate(state)
		}
	}
	s.tokens = tokens / float64(len(f.clients))
	if m.shared != nil {
		s.tokens = m.shared.tokens(m.capacity) + held
	}
	if s.leased > 0 {
		s.members = members / float64(s.leased)
	}
	if s.limited > 0 {
		s.sendRate = rate / float64(s.limited)
	}
}

// sendRate returns the rate of a client. The rate of a lease ends with it.
func sendRate(s awsretry.State) float64 {
	if s.Leased {
		return s.FleetRate / float64(max(s.Members, 1))
	}
	return s.SendRate
}
