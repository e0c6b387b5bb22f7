package main

import (
	"io"
	"iter"
	"slices"
	"time"

	"example.com/awsretry/delivery"
)

// A plan is when a policy retries: by its own backoff function, or by each of the four.
type plan struct {
	file      policyFile
	functions []delivery.BackoffFunction
	refused   []bool // of each function: Amazon SNS would not take the policy with it
	phases    []phase
	runs      []pauseRun
}

// A pauseRun is a number of retries in one phase that follow equal pauses, so that a plan of 100,000 retries is short.
type pauseRun struct {
	first, last int // of the retries, from 1
	phase       string
	pauses      []time.Duration // one for each function, before each of the retries
	before      []time.Duration // one for each function: the sum of all pauses before the run
}

// total is the sum of all pauses up to the one before a retry of the run.
func (r *pauseRun) total(function, retry int) time.Duration {
	return r.before[function] + time.Duration(retry-r.first+1)*r.pauses[function]
}

func newPlan(file policyFile, compare bool) *plan {
	retry := file.policy.HealthyRetryPolicy
	p := &plan{file: file, functions: []delivery.BackoffFunction{retry.BackoffFunction}, phases: phasesOf(retry)}
	if compare {
		p.functions = functions[:]
	}
	next := make([]func() (time.Duration, bool), len(p.functions))
	for i, f := range p.functions {
		policy := withFunction(file.policy, f)
		p.refused = append(p.refused, policy.Validate(true) != nil)
		var stop func()
		next[i], stop = iter.Pull(policy.Delays())
		defer stop()
	}
	n := 0
	totals := make([]time.Duration, len(next))
	for _, phase := range p.phases {
		for range phase.retries {
			n++
			pauses := make([]time.Duration, len(next))
			for i := range next {
				pauses[i], _ = next[i]()
			}
			p.add(n, phase.name, pauses, totals)
			for i, pause := range pauses {
				totals[i] += pause
			}
		}
	}
	return p
}

func (p *plan) add(n int, phase string, pauses, totals []time.Duration) {
	if len(p.runs) > 0 {
		last := &p.runs[len(p.runs)-1]
		if last.phase == phase && slices.Equal(last.pauses, pauses) {
			last.last = n
			return
		}
	}
	p.runs = append(p.runs, pauseRun{n, n, phase, pauses, slices.Clone(totals)})
}

func (p *plan) retries() int {
	if len(p.runs) == 0 {
		return 0
	}
	return p.runs[len(p.runs)-1].last
}

// total is the sum of all pauses.
func (p *plan) total(function int) time.Duration {
	if len(p.runs) == 0 {
		return 0
	}
	last := p.runs[len(p.runs)-1]
	return last.total(function, last.last)
}

// longRun is how many equal pauses in a row are worth a line each.
const longRun = 10

// lines yields the runs as they are shown: the long ones whole, unless all is set, the others a retry at a time.
func (p *plan) lines(all bool) iter.Seq[pauseRun] {
	return func(yield func(pauseRun) bool) {
		for _, run := range p.runs {
			if run.last-run.first >= longRun && !all {
				if !yield(run) {
					return
				}
				continue
			}
			for n := run.first; n <= run.last; n++ {
				line := pauseRun{n, n, run.phase, run.pauses, make([]time.Duration, len(run.before))}
				for i := range line.before {
					line.before[i] = run.total(i, n) - run.pauses[i]
				}
				if !yield(line) {
					return
				}
			}
		}
	}
}

func writePlanJSON(w io.Writer, p *plan, all bool) error {
	type pauses struct {
		First   int     `json:"first_retry"`
		Last    int     `json:"last_retry"`
		Phase   string  `json:"phase"`
		Seconds float64 `json:"pause_seconds"` // before each of them
		Total   float64 `json:"total_seconds"` // up to the last of them
	}
	type schedule struct {
		Function delivery.BackoffFunction `json:"backoff_function"`
		Allowed  bool                     `json:"allowed"`
		Total    float64                  `json:"total_seconds"`
		Pauses   []pauses                 `json:"pauses"`
	}
	document := struct {
		Policy    *delivery.Policy `json:"policy"`
		Raw       bool             `json:"raw_delivery_only"`
		Retries   int              `json:"retries"`
		Attempts  int              `json:"attempts"`
		Schedules []schedule       `json:"schedules"`
	}{p.file.policy, p.file.raw, p.retries(), p.retries() + 1, nil}
	for i, f := range p.functions {
		s := schedule{Function: f, Allowed: !p.refused[i], Total: p.total(i).Seconds(), Pauses: []pauses{}}
		for line := range p.lines(all) {
			s.Pauses = append(s.Pauses, pauses{line.first, line.last, line.phase, line.pauses[i].Seconds(), line.total(i, line.last).Seconds()})
		}
		document.Schedules = append(document.Schedules, s)
	}
	encoder := newJSON(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}
