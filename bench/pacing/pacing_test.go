package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/bench/internal/modeled"
)

func TestScenariosAreValid(t *testing.T) {
	for _, s := range scenarios() {
		if err := s.Scenario.Validate(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

func TestInTurn(t *testing.T) {
	got := inTurn(time.Second, 3*time.Second, 20, 200)
	want := []modeled.Step{{Rate: 20}, {From: time.Second, Rate: 200}, {From: 2 * time.Second, Rate: 20}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSameSeedSameFigures(t *testing.T) {
	s := at("three clients", 100, clients(3, 8), atRandom(0.05), during(30*time.Second, time.Minute))
	figures := func(pacing awsretry.Pacing, seed uint64) (all []float64) {
		run, err := s.run(t.Context(), pacing, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			if c.Name != modeled.Stepped.Name { // there is no step
				all = append(all, c.Of(run))
			}
		}
		return all
	}
	for _, pacing := range pacings {
		first := figures(pacing, 1)
		if again := figures(pacing, 1); !slices.Equal(again, first) {
			t.Errorf("%v: %v, and with the same seed %v", pacing, first, again)
		}
		if other := figures(pacing, 2); slices.Equal(other, first) {
			t.Errorf("%v: another seed gives the same: %v", pacing, first)
		}
	}
}

// The table has a row for each pacing.
func TestCompare(t *testing.T) {
	var out strings.Builder
	if err := compare(t.Context(), &out, []scenario{at("one", 20, during(10*time.Second, 30*time.Second))}, 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| one ", "| cubic ", "| scaled ", "the least of 2 runs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
