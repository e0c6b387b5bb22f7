package scenario

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

func (c *checker) clients(s Scenario) {
	f := s.Clients
	c.whole("clients.count", f.Count, 1, MaxClients)
	c.whole("clients.callers", f.Callers, 0, maxCallers)
	c.number("clients.rate", f.Rate, maxRate)
	herd := slices.ContainsFunc(s.Events, func(e Event) bool { return e.Kind == Herd })
	c.check(f.Callers > 0 || f.Rate != 0 || herd, "clients.callers", f.Callers,
		"above 0 if clients.rate is 0: without either nobody calls")
	c.check(f.Callers == 0 || f.Rate == 0, "clients.rate", f.Rate,
		"0 if clients.callers is above 0: calls come in a closed loop or arrive at a rate, not both")
	c.within("clients.think", f.Think, 0, Duration(maxTime))
	c.check(f.Callers > 0 || f.Think == 0, "clients.think", f.Think, "0 if clients.callers is 0")
	c.check(f.MaxInFlight >= 0 && f.MaxInFlight <= maxCallers, "clients.max_in_flight", f.MaxInFlight,
		"1 to %d, or 0 for a number that fits the rate", maxCallers)
	c.timeout("clients.timeout", f.Timeout, "none")
	c.timeout("clients.attempt_timeout", f.AttemptTimeout, "none")
}

// timeout checks a time-out, of which 0 means something else.
func (c *checker) timeout(field string, d Duration, zero string) {
	c.check(d == 0 || d >= Duration(time.Millisecond) && d <= Duration(maxTime), field, d,
		"1ms to %v, or 0 for %s", Duration(maxTime), zero)
}

func (c *checker) service(s Service) {
	c.positive("service.capacity", s.Capacity, maxRate)
	c.whole("service.queue", s.Queue, 0, maxCount)
	c.check(slices.Contains([]int{0, http.StatusTooManyRequests, http.StatusServiceUnavailable}, s.QueueFull),
		"service.queue_full", s.QueueFull, "429 or 503, or 0 for 503")
	c.check(s.Network == 0 || s.Network >= Duration(minNetwork) && s.Network <= Duration(maxTime),
		"service.network", s.Network, "%v to %v, or 0 for %v", Duration(minNetwork), Duration(maxTime), defaultNetwork)
	c.number("service.refuse_cost", s.RefuseCost, 1)
	l := s.Latency
	c.quantiles("service.latency", l)
	c.within("service.latency.median", l.Median, 0, Duration(maxTime))
	switch l.Distribution {
	case Constant, Exponential:
		c.check(l.P99 == 0, "service.latency.p99", l.P99, "0: only the lognormal distribution has one")
	case "", Lognormal:
		if l.Distribution == Lognormal || l.P99 != 0 {
			c.check(l.Median > 0 && l.P99 > l.Median && l.P99 <= Duration(maxTime), "service.latency.p99", l.P99,
				"above the median, %v, which must be above 0, and at most %v", l.Median, Duration(maxTime))
		}
	case Tabulated:
	default:
		c.check(false, "service.latency.distribution", clipped(l.Distribution),
			"constant, exponential, lognormal or table")
	}
	c.throttle("service.throttle", s.Throttle)
	if s.Body != nil {
		c.check(s.Body.Time >= Duration(time.Millisecond) && s.Body.Time <= Duration(maxTime),
			"service.body.time", s.Body.Time, "1ms to %v", Duration(maxTime))
		c.check(s.Body.Broken >= 0 && s.Body.Broken < 1, "service.body.broken", s.Body.Broken, "at least 0 and below 1")
	}
}

func (c *checker) throttle(field string, t *Throttle) {
	if t == nil {
		return
	}
	c.check(t.Share >= 0 && t.Share < 1, field+".share", t.Share, "at least 0 and below 1")
	if t.Rate == 0 && (t.Share != 0 || t.InFlight != 0) {
		for i, value := range []any{t.Burst, t.Window, t.Announces} {
			name := []string{".burst", ".window", ".announces"}[i]
			c.check(reflect.ValueOf(value).IsZero(), field+name, value, "left out if the rate is 0")
		}
		c.check(!t.PerClient || t.InFlight != 0 || t.Ban != 0, field+".per_client", t.PerClient,
			"left out without a rate, in_flight or ban")
	} else {
		c.check(t.Rate > 0 && t.Rate <= maxRate, field+".rate", t.Rate,
			"above 0 and at most %v, or 0 with a share or in_flight", float64(maxRate))
	}
	c.whole(field+".in_flight", t.InFlight, 0, maxCount)
	c.within(field+".ban", t.Ban, 0, Duration(maxTime))
	c.number(field+".burst", t.Burst, maxRate)
	c.check(t.Burst == 0 || !(t.Burst < 1), field+".burst", t.Burst,
		"at least 1, or 0 for the requests of one second")
	c.within(field+".window", t.Window, 0, Duration(maxDuration))
	c.check(t.Window == 0 || t.Rate*time.Duration(t.Window).Seconds() >= 1, field+".window", t.Window,
		"long enough for a request, or 0 for a token bucket")
	c.check(t.Window == 0 || t.Burst == 0 || t.Burst == t.Rate*time.Duration(t.Window).Seconds(), field+".burst", t.Burst,
		"0 if there is a window")
	c.check(t.Announces == "" || slices.Contains(dialects, t.Announces), field+".announces", clipped(t.Announces),
		"%s or %s", strings.Join(dialects[:len(dialects)-1], ", "), dialects[len(dialects)-1])
	refills := t.Announces == OpenAI || t.Announces == Anthropic || t.Announces == Heroku
	c.check(!refills || t.Window == 0, field+".window", t.Window, "0 if announces is %s, whose buckets refill", t.Announces)
	c.seconds(field+".retry_after", t.RetryAfter, 0, Duration(maxTime))
	c.seconds(field+".retry_at", t.RetryAt, 0, Duration(maxDuration))
	c.check(t.RetryAt == 0 || t.RetryAfter == 0, field+".retry_at", t.RetryAt, "0 if retry_after is above 0")
	word := func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	c.check(len(t.Code) <= maxNameBytes && !strings.ContainsFunc(t.Code, func(r rune) bool { return !word(r) }),
		field+".code", clipped(t.Code), "of letters and digits, at most %d", maxNameBytes)
}

func (c *checker) event(field string, e Event, s Scenario) {
	c.check(e.From >= 0 && e.From < s.Duration, field+".from", e.From,
		"0s or more, and before the end of the run, %v", s.Duration)
	c.check(e.To == 0 || e.To > e.From && e.To <= s.Duration, field+".to", e.To,
		"after from, %v, and at most the end of the run, %v, or 0 for that", e.From, s.Duration)
	fields := []struct {
		kind, name string
		given      bool
	}{
		{Outage, "how", e.How != ""},
		{CapacityStep, "capacity", e.Capacity != 0},
		{Errors, "share", e.Share != 0},
		{SlowLatency, "factor", e.Factor != 0},
		{Herd, "calls", e.Calls != 0},
		{Throttling, "throttle", e.Throttle != nil},
		{Join, "clients", e.Clients != 0},
	}
	known := false
	for _, f := range fields {
		known = known || f.kind == e.Kind
	}
	if !known {
		c.check(false, field+".kind", clipped(e.Kind), "outage, capacity, errors, throttle, latency, herd or join")
		return
	}
	for _, f := range fields {
		c.check(f.kind == e.Kind || !f.given, field+"."+f.name, "set",
			"left out: it is for events of kind %s, not %s", f.kind, e.Kind)
	}
	switch e.Kind {
	case Outage:
		switch e.How {
		case "", OutageRefuse, OutageReset, OutageHang:
		default:
			c.check(false, field+".how", clipped(e.How), "refuse, reset or hang")
		}
		c.check(e.How != OutageHang || s.Clients.Timeout > 0 || s.Clients.AttemptTimeout > 0, field+".how", e.How,
			"refuse or reset if clients have neither timeout nor attempt_timeout: they would wait forever")
	case CapacityStep:
		c.positive(field+".capacity", e.Capacity, maxRate)
	case Errors:
		c.positive(field+".share", e.Share, 1)
	case SlowLatency:
		c.positive(field+".factor", e.Factor, maxRate)
	case Herd:
		c.positive(field+".calls", e.Calls, maxHerdCalls)
	case Join:
		c.check(e.Clients >= 1 && max(e.Clients, s.Joining()) <= s.Clients.Count, field+".clients", e.Clients,
			"at least 1, and all that join at most clients.count, %d", s.Clients.Count)
	case Throttling:
		c.check(e.Throttle != nil, field+".throttle", "missing", "set, with a rate or a share")
		c.throttle(field+".throttle", e.Throttle)
	}
}

// until returns To with its default.
func (e Event) until(s Scenario) Duration {
	if e.To == 0 {
		return s.Duration
	}
	return e.To
}

// size checks that the run takes neither too long nor too much memory. s must
// otherwise be valid.
func (c *checker) size(s Scenario) {
	s = s.WithDefaults()
	f := s.Clients
	needed := float64(f.Count) * (float64(f.Callers) + 1 + float64(f.MaxInFlight)) * 2
	c.check(needed <= maxOwners, "clients",
		fmt.Sprintf("%d clients with %d callers and %d arriving calls at once", f.Count, f.Callers, f.MaxInFlight),
		"fewer: count * (callers + max_in_flight + 1) at most %d; without max_in_flight it is twice the calls within timeout",
		maxOwners/2)
	seconds := time.Duration(s.Duration).Seconds()
	_, calls := s.arriving()
	if f.Callers > 0 {
		calls = float64(f.Count) * float64(f.Callers) * seconds / time.Duration(f.Think+s.Service.Network).Seconds()
	}
	for _, e := range s.Events {
		calls += e.Calls * float64(f.Count)
	}
	c.check(calls <= maxCalls, "the number of calls", math.Ceil(calls),
		"at most %d for each setting: shorten the run or lower the rate", maxCalls)
}

// quantiles checks the table of a latency. It begins with the share 0 and ends
// with 1.
func (c *checker) quantiles(field string, l Latency) {
	if l.Distribution != Tabulated {
		c.check(len(l.Table) == 0, field+".table", "set", "left out: it is for the distribution %s only", Tabulated)
		return
	}
	c.check(l.Median == 0, field+".median", l.Median, "left out: the table has it")
	c.check(l.P99 == 0, field+".p99", l.P99, "left out: the table has it")
	c.check(len(l.Table) >= 2 && len(l.Table) <= maxQuantiles, field+".table", fmt.Sprintf("%d entries", len(l.Table)),
		"2 to %d", maxQuantiles)
	var last Quantile
	for i, q := range l.Table[:min(len(l.Table), maxQuantiles)] {
		entry := fmt.Sprintf("%s.table[%d]", field, i)
		c.within(entry+".within", q.Within, last.Within, Duration(maxTime))
		switch i {
		case 0:
			c.check(q.Share == 0, entry+".share", q.Share, "0, for the shortest time")
		case len(l.Table) - 1:
			c.check(q.Share == 1, entry+".share", q.Share, "1, for the longest time")
		default:
			c.check(q.Share > last.Share && q.Share < 1, entry+".share", q.Share,
				"above the one before, %v, and below 1", last.Share)
		}
		last = q
	}
}
