package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// A variant is the default setting with another value of one constant.
type variant struct {
	constant, from, to string
	setting            setting
}

// variants returns half and double of each constant, except where that makes
// no sense.
func variants() []variant {
	others := map[string][2]float64{
		"Beta":       {0.8, 0.95},
		"MostUnused": {1.25, 4}, // below 1 the rate could only fall
	}
	var all []variant
	for _, field := range reflect.VisibleFields(reflect.TypeFor[setting]()) {
		if field.Anonymous {
			continue
		}
		for direction, factor := range []float64{0.5, 2} {
			s := defaultSetting()
			value := reflect.ValueOf(&s).Elem().FieldByIndex(field.Index)
			from := fmt.Sprint(value)
			switch other, found := others[field.Name]; {
			case found:
				value.SetFloat(other[direction])
			case value.CanFloat():
				value.SetFloat(value.Float() * factor)
			default:
				value.SetInt(int64(float64(value.Int()) * factor))
			}
			all = append(all, variant{field.Name, from, fmt.Sprint(value), s})
		}
	}
	return all
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
	t := newTable(table.Row{"constant", "value", "worse", "better"})
	t.SetColumnConfigs(nil)
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
		t.AppendRow(table.Row{v.constant, v.from + " → " + v.to, summary(worse), summary(better)})
		fmt.Fprintf(progress, "\r%d of %d, %v ", i+1, len(all), time.Since(begin).Round(time.Second))
	}
	fmt.Fprintln(progress)
	fmt.Fprintln(w, t.RenderMarkdown())
	fmt.Fprintf(w, "\n%s\n", strings.ReplaceAll(varied, "SEEDS", fmt.Sprint(seeds)))
}

const varied = `worse, better: of the figures that differ from those of the default, the two that differ most, and how many others do
figures are the mean of SEEDS runs; a difference is listed if it is at least four times its standard error,
and at least 1 % of goodput, 15 % of p99, of throttled or of failed, 0.02 of Jain's index, or 2 s of the start`

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
