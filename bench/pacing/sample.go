package main

import (
	"math"
	"runtime"
	"sync"
)

// A sample is the figures of the runs of one scenario with one law. Run i has
// the seed i.
type sample []figures

// A job is a sample to be taken.
type job struct {
	scenario scenario
	law      newLaw
}

// take runs all jobs, as many at a time as there are processors.
func take(jobs []job, seeds int) []sample {
	samples := make([]sample, len(jobs))
	running := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, job := range jobs {
		samples[i] = make(sample, seeds)
		for seed := range seeds {
			running <- struct{}{}
			all.Go(func() {
				samples[i][seed] = job.scenario.run(uint64(seed), job.law)
				<-running
			})
		}
	}
	all.Wait()
	return samples
}

// mean returns the mean of a figure and its standard error.
func (s sample) mean(of func(figures) float64) (mean, standardError float64) {
	n := float64(len(s))
	for _, f := range s {
		mean += of(f) / n
	}
	if n < 2 {
		return mean, math.NaN()
	}
	variance := 0.0
	for _, f := range s {
		variance += (of(f) - mean) * (of(f) - mean) / (n - 1)
	}
	return mean, math.Sqrt(variance / n)
}

// worst returns the least value of a figure.
func (s sample) worst(of func(figures) float64) float64 {
	worst := math.Inf(1)
	for _, f := range s {
		worst = min(worst, of(f))
	}
	return worst
}
