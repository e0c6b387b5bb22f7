package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// An hourly is a service with a bucket for the requests of an hour, which
// refills steadily, and processes whose threads call again at once. The
// scenario and the figures are those of the benchmark of the Ruby library
// rate_throttle_client, which is for the API of Heroku.
type hourly struct {
	name             string
	limit            float64 // requests per hour
	clients, callers int     // processes, and threads of each

	settle, steady time.Duration // in which the bucket, full at first, is emptied; and which is measured then

	// Before the backlog the service admits slow requests per second for some
	// time. Then its bucket is full.
	slow           float64
	slowed, within time.Duration // and the longest time for the backlog
}

var heroku = hourly{
	name: "4500 requests per hour, two processes of five threads", limit: 4500, clients: 2, callers: 5,
	settle: time.Minute, steady: 30 * time.Minute, slow: 10, slowed: time.Minute, within: 10 * time.Minute,
}

// unspent is how much of the bucket is left when the backlog counts as cleared.
const unspent = 10

// hourlyFigures are those of rate_throttle_client, and the goodput.
type hourlyFigures struct {
	goodput   float64       // successful calls, as a share of those that the service could have served
	retries   float64       // share of a caller's requests that are refused; the mean over the callers
	deviation float64       // standard deviation of the callers' requests
	longest   time.Duration // call
	cleared   time.Duration // the backlog; negative: not in time
}

func (h hourly) title() string { return h.name }

// measure runs the libraries.
func (h hourly) measure(ctx context.Context, settings []scenario.Setting) ([]hourlyFigures, error) {
	steady := make([]hourlySample, len(settings))
	for i := range steady {
		steady[i] = newHourlySample(h)
	}
	observe := func(setting int, c simulate.Call) { steady[setting].add(c) }
	_, err := simulate.Run(ctx, h.scenario(settings, h.settle+h.steady), simulate.Options{Observe: observe})
	if err != nil {
		return nil, err
	}
	ends := make([][]time.Duration, len(settings)) // of the good calls of the backlog
	observe = func(setting int, c simulate.Call) {
		if end := c.Start + c.Took; c.Good && end >= h.slowed {
			ends[setting] = append(ends[setting], end)
		}
	}
	if _, err := simulate.Run(ctx, h.backlog(settings), simulate.Options{Observe: observe}); err != nil {
		return nil, err
	}
	figures := make([]hourlyFigures, len(settings))
	for i := range figures {
		figures[i] = steady[i].figures()
		figures[i].cleared = h.cleared(ends[i])
	}
	return figures, nil
}

// scenario is the service, whose bucket is full at first.
func (h hourly) scenario(settings []scenario.Setting, length time.Duration) scenario.Scenario {
	s := throttled(h.clients, h.callers, 0, length, step{0, h.limit / time.Hour.Seconds()}).scenario
	s.Service.Throttle.Burst, s.Service.Throttle.Announces = h.limit, scenario.Heroku
	s.Settings = settings
	return s
}

// backlog is the service that admits little at first.
func (h hourly) backlog(settings []scenario.Setting) scenario.Scenario {
	s := h.scenario(settings, h.slowed+h.within)
	slow := throttle(h.slow)
	slow.Announces = scenario.Heroku
	s.Events = []scenario.Event{{Kind: scenario.Throttling, To: scenario.Duration(h.slowed), Throttle: slow}}
	return s
}

// cleared returns the time until the bucket is all but empty.
func (h hourly) cleared(ends []time.Duration) time.Duration {
	backlog := int(h.limit) - unspent
	if len(ends) < backlog {
		return -1
	}
	slices.Sort(ends)
	return ends[backlog-1] - h.slowed
}

// An hourlySample is the measured calls of one library.
type hourlySample struct {
	of                hourly
	requests, refused []float64 // by caller
	longest           time.Duration
}

func newHourlySample(of hourly) hourlySample {
	callers := of.clients * of.callers
	return hourlySample{of: of, requests: make([]float64, callers), refused: make([]float64, callers)}
}

func (s *hourlySample) add(c simulate.Call) {
	if c.Start+c.Took < s.of.settle {
		return
	}
	caller := c.Client*s.of.callers + c.Caller
	s.requests[caller] += float64(c.Attempts)
	s.refused[caller] += float64(c.Attempts)
	if c.Good {
		s.refused[caller]--
	}
	s.longest = max(s.longest, c.Took)
}

func (s *hourlySample) figures() hourlyFigures {
	f := hourlyFigures{longest: s.longest}
	n := float64(len(s.requests))
	mean, squares := total(s.requests)/n, 0.0
	for i, requests := range s.requests {
		f.retries += s.refused[i] / max(requests, 1) / n
		squares += (requests - mean) * (requests - mean)
	}
	f.goodput = (total(s.requests) - total(s.refused)) / (s.of.limit / time.Hour.Seconds() * s.of.steady.Seconds())
	f.deviation = math.Sqrt(squares / (n - 1))
	return f
}

// print writes the table.
func (h hourly) print(w io.Writer, rows []row[hourlyFigures]) {
	fmt.Fprintf(w, "## %s\n\nThe bucket holds %.0f requests, is full at first and refills at %.2f per second. "+
		"The service says in each response how many are left. Measured for %v from %v on. The backlog: for %v the service admits %.0f requests per second, "+
		"then the bucket is full.\n\n", h.name, h.limit, h.limit/time.Hour.Seconds(), h.steady, h.settle, h.slowed, h.slow)
	var cells [][]any
	for _, row := range rows {
		f := row.figures
		cleared := fmt.Sprintf("> %.0f s", h.within.Seconds())
		if f.cleared >= 0 {
			cleared = seconds(f.cleared)
		}
		cells = append(cells, []any{
			row.library, percent(f.goodput), percent(f.retries), fmt.Sprintf("%.1f", f.deviation), seconds(f.longest), cleared,
		})
	}
	output.Table(w, 1, []any{
		"library", "goodput", "retry ratio", "deviation of requests", "longest call", "backlog cleared after",
	}, cells)
}
