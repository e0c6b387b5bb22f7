package main

import (
	"slices"
	"time"

	"example.com/awsretry/simulate"
)

// A ledger counts what happens in a run.
type ledger struct {
	from            time.Duration // what happens earlier counts for the start alone
	succeeded       []float64     // calls, by the second
	byClient        []float64     // successful calls
	sent, throttled int
	took            []time.Duration // of the calls that ended
	failed          int
}

func newLedger(s scenario) ledger {
	return ledger{
		from:      s.from,
		succeeded: make([]float64, s.length/time.Second+1),
		byClient:  make([]float64, len(s.clients)),
	}
}

func (l *ledger) countSent(now time.Duration, throttled bool) {
	if now < l.from {
		return
	}
	l.sent++
	if throttled {
		l.throttled++
	}
}

func (l *ledger) countCall(client int, begin, now time.Duration, succeeded bool) {
	if succeeded {
		l.succeeded[now/time.Second]++
	}
	if now < l.from {
		return
	}
	l.took = append(l.took, now-begin)
	if succeeded {
		l.byClient[client]++
	} else {
		l.failed++
	}
}

// Figures say how well a run went. Rates and shares are of what happened after
// the scenario's start.
type figures struct {
	goodput   float64 // successful calls / those that the service could have served
	p99       float64 // of the calls' times, failed ones included, in seconds
	throttled float64 // share of the attempts
	failed    float64 // share of the calls
	jain      float64 // fairness of the clients' successful calls
	start     float64 // seconds until 90 % of the limit, or the length of the run
	calls     int
	attempts  int
	mean      time.Duration // of the calls' times
}

func (l *ledger) figures(s scenario) figures {
	good := 0.0
	for _, calls := range l.byClient {
		good += calls
	}
	f := figures{
		goodput:  good / s.served(s.from, s.length),
		jain:     simulate.Jain(l.byClient),
		start:    l.start(s),
		calls:    len(l.took),
		attempts: l.sent,
	}
	if l.sent > 0 {
		f.throttled = float64(l.throttled) / float64(l.sent)
	}
	if len(l.took) > 0 {
		slices.Sort(l.took)
		f.failed = float64(l.failed) / float64(len(l.took))
		f.p99 = simulate.Percentile(l.took, 0.99).Seconds()
		var sum time.Duration
		for _, took := range l.took {
			sum += took
		}
		f.mean = sum / time.Duration(len(l.took))
	}
	return f
}

// start returns the seconds since the limit changes, or since the beginning, when
// the first five seconds begin that reach 90 % of what the service could have
// served.
func (l *ledger) start(s scenario) float64 {
	const span = 5
	for i := int(s.changes / time.Second); i+span < len(l.succeeded); i++ {
		good := 0.0
		for _, calls := range l.succeeded[i : i+span] {
			good += calls
		}
		begin := time.Duration(i) * time.Second
		if good >= 0.9*s.served(begin, begin+span*time.Second) {
			return float64(i) - s.changes.Seconds()
		}
	}
	return (s.length - s.changes).Seconds()
}
