package admission

import (
	"time"

	"example.com/awsretry/internal/pacer"
)

// An Outcome is what later attempts and other calls have to know of an attempt that
// was sent.
type Outcome struct {
	First     bool // the attempt is the first one of its call
	Success   bool
	Throttled bool
	Canceled  bool // by its caller: it counts only as sent, if it took a send token
	Continues bool // its response continues a body, which releases the tokens

	Increment          int           // of the retry tokens, for a success at the first attempt
	RetryAfter, Spread time.Duration // in force for all requests; 0 means none

	Announced *pacer.Announcement // nil if limits are not read
}

// Conclude updates what the requests to from share: the rate limiter, the retry
// token bucket and the Retry-After that is in force. It releases the tokens of p.
func (p *Permit) Conclude(from *Partition, o *Outcome) {
	switch {
	case from.Pacer == nil:
	case o.Canceled && p.turn != inFlight:
	case o.Announced == nil:
		from.Pacer.Update(p.SendTime, o.Throttled)
		p.turn = free
	default:
		from.Pacer.Announce(p.SendTime, *o.Announced)
		from.Pacer.Count(p.SendTime, o.Throttled)
		p.turn = free
	}
	switch {
	case !o.First:
	case o.Success:
		from.Quota.Release(o.Increment)
	default:
		from.Quota.SawCall()
	}
	if !o.Continues {
		p.Release(!o.First && o.Success)
	}
	if o.RetryAfter > 0 {
		from.Gate.Close(time.Now(), o.RetryAfter, o.Spread)
		from.Share.Signal()
	}
	if o.Throttled {
		from.Share.Signal()
	}
}
