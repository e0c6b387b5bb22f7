package schedule

import (
	"iter"
	"slices"
	"time"

	"example.com/awsretry/cmd/awsretry-deliver/internal/policyfile"
	"example.com/awsretry/delivery"
)

// functions are the backoff functions, in the order in which they are shown.
var functions = [...]delivery.BackoffFunction{
	delivery.Linear, delivery.Arithmetic, delivery.Geometric, delivery.Exponential,
}

// The phases, as "Message delivery retries" of the Amazon SNS documentation
// calls them.
const (
	immediate   = "immediate"
	preBackoff  = "pre-backoff"
	backoff     = "backoff"
	postBackoff = "post-backoff"
)

// A plan is when a policy retries: by its own backoff function, or by each of
// the four.
type plan struct {
	file      policyfile.File
	functions []delivery.BackoffFunction
	refused   []bool // of each function: Amazon SNS does not accept the policy with it
	phases    []phase
	runs      []run
}

// A phase is a part of a plan.
type phase struct {
	name    string
	retries int
}

// A run is consecutive retries of one phase that follow equal pauses.
type run struct {
	first, last int // retry, from 1
	phase       string
	pauses      []time.Duration // of each function, before each of the retries
	before      []time.Duration // of each function, the sum of all pauses before the run
}

// total returns the sum of all pauses up to the one before a retry of the run.
func (r *run) total(function, retry int) time.Duration {
	return r.before[function] + time.Duration(retry-r.first+1)*r.pauses[function]
}

func newPlan(file policyfile.File, compare bool) *plan {
	retry := file.Policy.HealthyRetryPolicy
	p := &plan{file: file, functions: []delivery.BackoffFunction{retry.BackoffFunction}, phases: phasesOf(retry)}
	if compare {
		p.functions = functions[:]
	}
	next := make([]func() (time.Duration, bool), len(p.functions))
	for i, f := range p.functions {
		policy := withFunction(file.Policy, f)
		p.refused = append(p.refused, policy.ValidateRaw() != nil)
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

func phasesOf(r *delivery.RetryPolicy) []phase {
	phases := []phase{
		{immediate, *r.NumNoDelayRetries},
		{preBackoff, *r.NumMinDelayRetries},
		{backoff, *r.NumRetries - *r.NumNoDelayRetries - *r.NumMinDelayRetries - *r.NumMaxDelayRetries},
		{postBackoff, *r.NumMaxDelayRetries},
	}
	return slices.DeleteFunc(phases, func(p phase) bool { return p.retries == 0 })
}

// withFunction returns p with another backoff function.
func withFunction(p *delivery.Policy, f delivery.BackoffFunction) *delivery.Policy {
	q, r := *p, *p.HealthyRetryPolicy
	r.BackoffFunction = f
	q.HealthyRetryPolicy = &r
	return &q
}

func (p *plan) add(n int, phase string, pauses, totals []time.Duration) {
	if len(p.runs) > 0 {
		last := &p.runs[len(p.runs)-1]
		if last.phase == phase && slices.Equal(last.pauses, pauses) {
			last.last = n
			return
		}
	}
	p.runs = append(p.runs, run{n, n, phase, pauses, slices.Clone(totals)})
}

func (p *plan) retries() int {
	if len(p.runs) == 0 {
		return 0
	}
	return p.runs[len(p.runs)-1].last
}

// total returns the sum of all pauses.
func (p *plan) total(function int) time.Duration {
	if len(p.runs) == 0 {
		return 0
	}
	last := p.runs[len(p.runs)-1]
	return last.total(function, last.last)
}

// phaseTotal returns the sum of a phase's pauses by the first function.
func (p *plan) phaseTotal(name string) (sum time.Duration) {
	for _, run := range p.runs {
		if run.phase == name {
			sum += run.total(0, run.last) - run.before[0]
		}
	}
	return sum
}

// A longer run than this is shown as one line.
const longRun = 10

// lines yields the runs as they are shown: a long run whole, and the others a
// retry at a time.
func (p *plan) lines() iter.Seq[run] {
	return func(yield func(run) bool) {
		for _, r := range p.runs {
			if r.last-r.first >= longRun {
				if !yield(r) {
					return
				}
				continue
			}
			for n := r.first; n <= r.last; n++ {
				line := run{n, n, r.phase, r.pauses, make([]time.Duration, len(r.before))}
				for i := range line.before {
					line.before[i] = r.total(i, n) - r.pauses[i]
				}
				if !yield(line) {
					return
				}
			}
		}
	}
}
