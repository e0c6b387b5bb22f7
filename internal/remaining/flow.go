package remaining

import (
	"time"

	"example.com/awsretry/internal/limitheaders"
)

// fewest is the minimum number of requests, or of units, in a measurement of the flow.
const fewest = 8

// A flow measures the rate at which units come back without a reset, minus the rate
// at which other clients take them, if that is not higher. Between two responses in
// one window, what remains changes by the flow and by what this process took.
type flow struct {
	rate float64 // units per second
	last float64 // the previous measurement
	has  bool    // the rate has been measured
	off  float64 // the mean deviation of measurements from the rate

	used Use   // by this process, in total
	mark point // the request whose response will be measured next
	from point // the last measured response

	// Since the last measurement.
	sum      float64
	time     time.Duration
	requests int
}

// A point is a measured response, or a request that waits for its response.
type point struct {
	number    int     // of the request; 0 means none
	known     float64 // its cost, or 0 if unknown
	used      Use     // by the requests up to this one
	at        time.Duration
	end       time.Duration // until when the window certainly lasts
	remaining float64
}

// take records a request. near reports whether it follows another one so closely
// that the service may handle them in the opposite order.
func (f *flow) take(number int, known float64, near bool) {
	f.used.Add(1, known)
	switch {
	case near && f.mark.number == number-1:
		f.mark = point{}
	case !near && f.mark.number == 0:
		f.mark = point{number: number, known: known, used: f.used}
	}
}

// giveBack removes a request that the service did not count.
func (f *flow) giveBack(number int, known float64) {
	f.used.Add(-1, known)
	if number <= f.mark.number {
		f.mark.used.Add(-1, known)
	}
	if number < f.from.number { // hear has corrected from for its own request
		f.from.used.Add(-1, known)
	}
}

// hear updates the flow of m with a response.
func (f *flow) hear(m *Limit, served time.Duration, a limitheaders.Limit, r Response) {
	if !m.Window.Ends && a.Remaining+m.cost.mean > 2*ampleShare*m.Size() {
		f.rate, f.has, f.from = 0, false, point{} // what came back may have been more than there was room for
	}
	length := m.Length()
	most := 4 * m.Size() / max(length, time.Second).Seconds()
	if missing := a.Quota - a.Remaining; a.Refills && missing > 0 && a.Reset > 0 {
		most = missing / a.Reset.Seconds()
		if !f.has {
			f.rate, f.last, f.off = most, most, most/4
		}
	}
	if r.Number == 0 || f.mark.number != r.Number {
		return
	}
	from, p := f.from, f.mark
	p.at, p.end, p.remaining = served, never, a.Remaining
	if m.Window.Ends {
		p.end = served + a.Reset - m.Window.Rounded()
	}
	if r.Free {
		p.used.Add(-1, p.known)
	}
	f.mark, f.from = point{}, p
	if from.number == 0 || p.at >= from.end || p.at <= from.at {
		return
	}
	known, learned := p.used.known-from.used.known, p.used.learned-from.used.learned
	fall := from.remaining - p.remaining
	if a.Refills {
		fall += most * (p.at - from.at).Seconds()
	}
	m.cost.span(fall-known, learned)
	f.sum += p.remaining - from.remaining + (known + float64(learned)*m.cost.mean)
	f.time += p.at - from.at
	f.requests += p.number - from.number
	enough := f.requests >= fewest || max(f.sum, -f.sum) >= fewest*m.cost.mean
	if !enough || f.time < max(min(length/16, 5*time.Second), 2*r.Trip) {
		return
	}
	rate := max(min(f.sum/f.time.Seconds(), most), 0)
	if !f.has {
		f.last, f.has = rate, true
	}
	f.off += (max(rate-f.rate, f.rate-rate) - f.off) / 4
	f.rate += (min(rate, f.last) - f.rate) / 2 // a single high measurement may be wrong
	f.last, f.sum, f.time, f.requests = rate, 0, 0, 0
}
