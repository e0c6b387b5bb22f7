package main

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A throttling is a service that admits so much and no more, and callers that call again as soon as they have their answer.
type throttling struct {
	name             string
	clients, callers int // callers of each client
	virtual, wall    period
}

// A period is what is measured: not the beginning, the search for the rate after the very first throttling, which hits all
// callers at once.
type period struct {
	schedule schedule
	from, to time.Duration
}

// throttled is what the callers of a throttler saw.
type throttled struct {
	goodput           float64       // successful calls, as a part of those that the service could have admitted
	refused           float64       // as a part of the attempts
	failed            float64       // as a part of the calls
	p50, p99, longest time.Duration // of a call, successful or not, its pauses and its time in line included
	fair              float64       // Jain's index over the callers' successful calls: 1 where all have the same
	fairClients       float64       // the same over the clients'
}

func (t throttling) run(newClient func(http.RoundTripper) call, on clocking) throttled {
	p := t.virtual
	if on == theWallClock {
		p = t.wall
	}
	c := startClock()
	service := newThrottler(c, p.schedule, p.from)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards took and calls
	var took []time.Duration
	calls := 0.0
	succeeded := make([]float64, t.clients*t.callers) // each caller writes its own
	for i := range succeeded {
		if i%t.callers == 0 {
			client := newClient(service)
			for j := range t.callers {
				wg.Go(func() {
					for begin := c.now(); begin < p.to; {
						ok := client()
						end := c.now()
						if end >= p.from {
							mu.Lock()
							took = append(took, end-begin) // also of one that ends late, or whoever starves would not count
							if end < p.to {
								calls++
							}
							mu.Unlock()
							if ok && end < p.to {
								succeeded[i+j]++
							}
						}
						if end == begin { // nothing was sent, and virtual time goes on only when everybody waits
							time.Sleep(soon())
							end = c.now()
						}
						begin = end
					}
				})
			}
		}
	}
	wg.Wait()
	slices.Sort(took)
	good := total(succeeded)
	perClient := make([]float64, t.clients)
	for i, n := range succeeded {
		perClient[i/t.callers] += n
	}
	return throttled{
		goodput:     good / p.schedule.admits(p.from, p.to),
		refused:     float64(service.throttled) / float64(service.admitted+service.throttled),
		failed:      1 - good/calls,
		p50:         quantile(took, 0.50),
		p99:         quantile(took, 0.99),
		longest:     quantile(took, 1),
		fair:        jain(succeeded),
		fairClients: jain(perClient),
	}
}

// quantile is 0 where there is nothing in sorted.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func total(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum
}

// jain is Jain's fairness index.
func jain(of []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range of {
		sum += v
		squares += v * v
	}
	return sum * sum / float64(len(of)) / squares
}
