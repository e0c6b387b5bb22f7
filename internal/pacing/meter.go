package pacing

import "time"

// A Meter measures the rate of outcomes, in intervals that are aligned to the
// Unix epoch.
type Meter struct {
	interval  time.Duration
	smoothing float64
	phase     time.Duration // from the beginning of an interval to the clock's zero
	last      time.Duration // beginning of the interval in which the count began
	next      time.Duration // the earliest time of the next measurement
	outcomes  int
	counted   int     // outcomes of the last measurement
	newest    float64 // rate of the last measurement alone, per second
	rate      float64 // smoothed, per second
}

// NewMeter returns a meter for a clock whose zero is start. It counts from the
// whole second of start on. smoothing is the weight of the newest measurement.
func NewMeter(start time.Time, interval time.Duration, smoothing float64) Meter {
	phase := time.Duration(start.UnixNano()) % interval
	if phase < 0 {
		phase += interval
	}
	return Meter{interval: interval, smoothing: smoothing, phase: phase, last: -time.Duration(start.Nanosecond())}
}

// adopt begins at a rate. The first measurement takes at least an interval.
func (m *Meter) adopt(now time.Duration, rate float64) {
	m.last, m.next = now, m.begin(now)+2*m.interval
	m.rate, m.outcomes = rate, 0
}

// begin returns when the interval of now began.
func (m *Meter) begin(now time.Duration) time.Duration {
	// A sum of now and phase may exceed the greatest Duration, but not the
	// greatest uint64.
	interval := uint64(m.interval)
	return time.Duration(uint64(now+m.phase)/interval*interval) - m.phase
}

// Count counts n outcomes, 0 or 1. The first call in an interval updates the
// rate.
func (m *Meter) Count(now time.Duration, n int) {
	m.outcomes += n
	if now < m.next {
		return
	}
	begin := m.begin(now)
	m.next = begin + m.interval
	if begin <= m.last {
		return
	}
	rate := float64(m.outcomes) / (begin - m.last).Seconds()
	m.rate = rate*m.smoothing + m.rate*(1-m.smoothing)
	m.counted, m.newest, m.outcomes, m.last = m.outcomes, rate, 0, begin
}

// Rate returns the measured rate, per second.
func (m *Meter) Rate() float64 { return m.rate }

// sinceLast returns the rate since the last measurement, over at least a
// second.
func (m *Meter) sinceLast(now time.Duration) float64 {
	return float64(m.outcomes) / max(now-m.last, time.Second).Seconds()
}
