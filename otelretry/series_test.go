package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/worlds"
	"example.com/awsretry/otelretry"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric"
)

// Whatever servers, partitions, methods and statuses strangers choose: a metric
// has less than 2000 series, its sum is right, and of a server or a partition with
// a name it has every attempt, whatever its outcome. The first ones have a name.
func TestLawOfNames(t *testing.T) {
	worlds.Each(t, 12, func(t *testing.T, r *rand.Rand) {
		reader := metric.NewManualReader()
		recorder, err := otelretry.NewRecorder(metric.NewMeterProvider(metric.WithReader(reader)))
		if err != nil {
			t.Fatal(err)
		}
		var (
			hosts    = worlds.Pick(r, 1, 20, 140, 400, 1500)
			tenants  = worlds.Pick(r, 0, 0, 3, 100, 600) // 0: a partition is a host
			methods  = worlds.Pick(r, 1, 3, 12)
			statuses = worlds.Pick(r, 1, 5, 900)
			failing  = worlds.Pick(r, 0.008, 0.2, 1)
			attempts = make([]awsretry.Attempt, worlds.Pick(r, 50, 3000, 8000))
			want     = make(map[[2]string]tally)
		)
		for i := range attempts {
			a := drawn(t, r, r.IntN(hosts), methods, statuses, failing)
			if a.Partition = a.Request.URL.Host; tenants > 0 {
				a.Partition = fmt.Sprint("tenant ", r.IntN(tenants))
			}
			attempts[i] = a
			at := [2]string{a.Request.URL.Host, a.Partition}
			want[at] = want[at].plus(tallied(a.Number > 1, outcomeOf(&a), 1))
		}
		var halves sync.WaitGroup
		for _, half := range [][]awsretry.Attempt{attempts[:len(attempts)/2], attempts[len(attempts)/2:]} {
			halves.Go(func() {
				for _, a := range half {
					recorder.Observe(a)
				}
			})
		}
		halves.Wait()

		got := make(map[[2]string]tally)
		for _, line := range collected(t, reader, "client.call.attempts") {
			attrs := attributesOf(line)
			n, err := strconv.ParseInt(line[strings.LastIndex(line, " ")+1:], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			at := [2]string{attrs["server.address"], attrs["awsretry.partition"]}
			got[at] = got[at].plus(tallied(attrs["awsretry.retry"] == "true", outcomeIn(attrs), n))
		}
		var rest tally
		unnamed := make(map[string]tally) // of the partitions of each server
		for at, of := range want {
			if named, ok := got[at]; !ok {
				unnamed[at[0]] = unnamed[at[0]].plus(of)
			} else if diff := cmp.Diff(of, named); diff != "" {
				t.Errorf("%s (-want +got):\n%s", at, diff)
			}
		}
		for host, of := range unnamed {
			if named, ok := got[[2]string{host, "_OTHER"}]; !ok {
				rest = rest.plus(of)
			} else if diff := cmp.Diff(of, named); diff != "" {
				t.Errorf("other partitions of %s (-want +got):\n%s", host, diff)
			}
		}
		if diff := cmp.Diff(rest, got[[2]string{"_OTHER", "_OTHER"}]); diff != "" {
			t.Errorf("other servers (-want +got):\n%s", diff)
		}
		if names := min(len(want), 150); len(got) < names {
			t.Errorf("%d names, want %d at least", len(got), names)
		}
		series := make(map[string]int)
		for _, line := range collected(t, reader, "") {
			name, _, _ := strings.Cut(line, "[")
			series[name]++
		}
		for name, n := range series {
			if n >= 2000 {
				t.Errorf("%s has %d series", name, n)
			}
		}
	})
}

// drawn returns an attempt whose request goes to that host.
func drawn(t *testing.T, r *rand.Rand, host, methods, statuses int, failing float64) awsretry.Attempt {
	url := fmt.Sprintf("http://h%d.example/", host)
	method := []string{"GET", "PUT", "POST", "HEAD", "PATCH", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PURGE", "A", "B"}[r.IntN(methods)]
	a := awsretry.Attempt{
		Request: request(t, context.Background(), method, url), Number: 1 + r.IntN(2),
		Response: &http.Response{StatusCode: 200}, Stop: awsretry.StopSuccess,
	}
	if r.Float64() >= failing {
		a.Response.StatusCode += r.IntN(100) * min(statuses-1, 1)
		return a
	}
	a.Response.StatusCode = 400 + r.IntN(min(statuses, 600))
	a.Class = worlds.Pick(r, awsretry.Permanent, awsretry.Transient, awsretry.Timeout, awsretry.Throttled)
	a.Stop = worlds.Pick(r, "", awsretry.StopQuota, awsretry.StopMaxAttempts, awsretry.StopDeadline)
	if worlds.Chance(r, 0.2) {
		if a.Response, a.Err = nil, errors.New("reset"); a.Class == awsretry.Permanent {
			a.Stop, a.Err = awsretry.StopCanceled, context.Canceled
		}
	}
	return a
}

// outcomeOf returns what alerts tell apart.
func outcomeOf(a *awsretry.Attempt) string {
	switch {
	case a.Class == awsretry.Success:
		return "success"
	case a.Class == awsretry.Permanent && (a.Response == nil || a.Response.StatusCode < 500):
		return "own"
	}
	return "failure"
}

// outcomeIn returns it as the alerts find it in the attributes.
func outcomeIn(attrs map[string]string) string {
	switch own := regexp.MustCompile(`^(4..|canceled|_OTHER)$`); {
	case attrs["awsretry.class"] == "success":
		return "success"
	case attrs["awsretry.class"] == "permanent" && own.MatchString(attrs["error.type"]):
		return "own"
	}
	return "failure"
}

func attributesOf(line string) map[string]string {
	attrs := make(map[string]string)
	for _, pair := range strings.Split(line[strings.Index(line, "] ")+2:strings.LastIndex(line, " = ")], ",") {
		name, value, _ := strings.Cut(pair, "=")
		attrs[name] = value
	}
	return attrs
}

// A tally counts attempts by outcome, first attempts apart from retries.
type tally map[string]int64

func tallied(retry bool, outcome string, n int64) tally {
	return tally{fmt.Sprint(outcome, retry): n}
}

func (t tally) plus(u tally) tally {
	all := make(tally)
	for _, some := range []tally{t, u} {
		for outcome, n := range some {
			all[outcome] += n
		}
	}
	return all
}
