package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/bench/internal/output"
)

// A variant is the default setting with another value of one constant.
type variant struct {
	constant, from, to string
	setting            setting
}

// otherValues are tried in place of half and double, which make no sense.
var otherValues = map[string][]float64{
	"Beta":       {0.8, 0.95},
	"MostUnused": {1.25, 4}, // below 1 the rate could only fall
	"Back":       {0.9, 1},
	"Low":        {0.8, 0.95},
	"Below":      {0.5, 1},
	"HoldAt":     {0.5, 0.8},
	"Fewer":      {4, 16},  // 1 is no difference
	"Doubt":      {0.7, 1}, // above 1 a doubt would make it more
}

// extremes are values at which a constant has no effect, or one that everything
// else gives way to.
var extremes = map[string]float64{
	"RiseTrips":      0,           // the rise does not depend on the round trip
	"Sparse":         0,           // nor on the share of throttling
	"Agreements":     0,           // every limit is predictable, so that the own rate decides on the rise
	"Predictable":    0,           // no rise depends on the own rate
	"MostUnused":     math.Inf(1), // unused rates rise too
	"ManyOutcomes":   1e6,         // the rate falls as far as the throttling goes
	"MostBackground": 0,           // no background is looked for
	"BurstSeconds":   0,           // no bursts at all
}

// variants returns all variants: half and double of each constant, mostly.
func variants() []variant {
	var all []variant
	for _, field := range reflect.VisibleFields(reflect.TypeFor[setting]()) {
		if field.Anonymous {
			continue
		}
		constant := func(s *setting) reflect.Value { return reflect.ValueOf(s).Elem().FieldByIndex(field.Index) }
		standard := defaultSetting()
		was := constant(&standard)
		values, found := otherValues[field.Name]
		if !found {
			values = []float64{0.5 * number(was), 2 * number(was)}
		}
		if extreme, found := extremes[field.Name]; found {
			values = append(values, extreme)
		}
		for _, value := range values {
			s := defaultSetting()
			is := constant(&s)
			if is.CanFloat() {
				is.SetFloat(value)
			} else {
				is.SetInt(int64(value))
			}
			all = append(all, variant{field.Name, fmt.Sprint(was), fmt.Sprint(is), s})
		}
	}
	return all
}

// number returns the value of a constant, which is a float, an int or a
// duration.
func number(constant reflect.Value) float64 {
	if constant.CanFloat() {
		return constant.Float()
	}
	return float64(constant.Int())
}

// vary prints for each constant and direction which figures are worse than
// with the default, and which are better.
func vary(w, progress io.Writer, scenarios []scenario, seeds int) {
	begin := time.Now()
	samples := func(law newLaw) []sample {
		var jobs []job
		for _, s := range scenarios {
			jobs = append(jobs, job{s, law})
		}
		return take(jobs, seeds)
	}
	defaults := samples(defaultSetting().newLaw)
	header := []any{"constant", "value", "worse", "better"}
	var rows [][]any
	all := variants()
	for i, v := range all {
		var worse, better []change
		for j, sample := range samples(v.setting.newLaw) {
			for _, f := range judged {
				c := difference(f, scenarios[j].name, defaults[j], sample)
				switch {
				case c.weight > 0:
					better = append(better, c)
				case c.weight < 0:
					worse = append(worse, c)
				}
			}
		}
		rows = append(rows, []any{v.constant, v.from + " → " + v.to, summary(worse), summary(better)})
		fmt.Fprintf(progress, "\r%d of %d, %v ", i+1, len(all), time.Since(begin).Round(time.Second))
	}
	fmt.Fprintln(progress)
	output.Table(w, len(header), header, rows)
	fmt.Fprintf(w, "%s\n", strings.ReplaceAll(varied, "SEEDS", fmt.Sprint(seeds)))
}

const varied = `worse, better: of the figures that differ from those of the default, the two that differ most, and
how many others do. Figures are the mean of SEEDS runs; a difference is listed if it is at least four times its
standard error, and at least 1 % of goodput, 15 % of p99, of throttled or of failed, 0.02 of Jain's index, or 2 s of the
start`

// A change is a figure of a scenario that a variant changes.
type change struct {
	text   string
	weight float64 // in notable differences; below 0 for the worse; 0: none
}

// difference returns the change of a figure between two samples.
func difference(f figure, scenario string, before, after sample) change {
	was, wasError := before.mean(f.of)
	is, isError := after.mean(f.of)
	weight := f.better * (is - was) / (f.notable + f.part*was)
	const sure = 4 // standard errors
	if math.Abs(weight) < 1 || math.Abs(is-was) < sure*math.Hypot(wasError, isError) {
		return change{}
	}
	return change{fmt.Sprintf("%s: %s %s → %s", scenario, f.name, f.show(was), f.show(is)), weight}
}

// summary names the greatest of the changes.
func summary(changes []change) string {
	const named = 2
	slices.SortStableFunc(changes, func(a, b change) int {
		return int(math.Copysign(1, math.Abs(b.weight)-math.Abs(a.weight)))
	})
	var texts []string
	for _, c := range changes[:min(named, len(changes))] {
		texts = append(texts, c.text)
	}
	if len(changes) > named {
		texts = append(texts, fmt.Sprintf("%d more", len(changes)-named))
	}
	if len(texts) == 0 {
		return "–"
	}
	return strings.Join(texts, "; ")
}
