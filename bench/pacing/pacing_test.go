package main

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/internal/httpfake"
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

// What HAProxy accepts of requests at a constant rate.
func TestHAProxy(t *testing.T) {
	for _, tt := range []struct {
		name       string
		rate, want float64 // per second
	}{
		{"below the limit", 95, 95},
		// 100 in the first period. Later the two periods always count more.
		{"twice the limit", 200, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := at("", 100, haproxy(time.Second))
				limiter := s.limiter(httpfake.Base(func(req *http.Request) (*http.Response, error) {
					return httpfake.Response(req, http.StatusOK, http.NoBody), nil
				}))
				const length = 100
				accepted := 0.0
				for range int(length * tt.rate) {
					resp, err := limiter.RoundTrip(&http.Request{Header: http.Header{}})
					if err != nil {
						t.Fatal(err)
					}
					switch resp.StatusCode {
					case http.StatusOK:
						accepted++
					case http.StatusTooManyRequests:
					default:
						t.Fatal(resp.Status)
					}
					time.Sleep(time.Duration(float64(time.Second) / tt.rate))
				}
				if got := accepted / length; math.Abs(got-tt.want) > 0.01*tt.want {
					t.Errorf("%.2f requests per second, want %.2f", got, tt.want)
				}
			})
		})
	}
}

// The table has a row for each pacing, also where the model does not have the
// limiter.
func TestCompare(t *testing.T) {
	var out strings.Builder
	brief := during(10*time.Second, 30*time.Second)
	err := compare(t.Context(), &out, []scenario{at("bucket", 20, brief), at("window", 200, haproxy(time.Second), brief)}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| bucket ", "| window ", "| cubic ", "| scaled ", "the least of 2 runs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
