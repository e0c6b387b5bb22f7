package main

import "fmt"

// A figure is one of a run's figures.
type figure struct {
	name   string
	of     func(figures) float64
	better float64 // 1 if more is better, otherwise -1
	// A difference counts that is more than notable, plus this part of the
	// figure.
	notable, part float64
	show          func(float64) string
}

// judged are the figures that are printed, and by which the constants are
// judged. notable says what we take for a difference of the same weight.
var judged = []figure{
	{"goodput", func(f figures) float64 { return f.goodput }, 1, 0.01, 0, percent},
	{"p99", func(f figures) float64 { return f.p99 }, -1, 0.05, 0.15, inSeconds},
	{"throttled", func(f figures) float64 { return f.throttled }, -1, 0.002, 0.15, percent},
	{"failed", func(f figures) float64 { return f.failed }, -1, 0.002, 0.15, percent},
	{"Jain", func(f figures) float64 { return f.jain }, 1, 0.02, 0, index},
	{"90 % after", func(f figures) float64 { return f.start }, -1, 2, 0.1, inSeconds},
}

func percent(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }

func index(n float64) string { return fmt.Sprintf("%.3f", n) }

func inSeconds(s float64) string {
	if s >= 10 {
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%.2f s", s)
}
