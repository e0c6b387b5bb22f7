package statuspage

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// What is counted of a partition is that of the last sixty seconds.
func TestMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page Page
		minute := func() minute {
			r := newReport(&page, time.Now())
			if len(r.Others) == 0 {
				return minute{}
			}
			return r.Others[0].Minute
		}
		for s := range 200 {
			if got := minute(); got.Attempts != 2*min(s, 59) || got.Retries != min(s, 59) {
				t.Fatalf("after %d s: %d attempts, %d retries", s, got.Attempts, got.Retries)
			}
			page.Observe(awsretry.Attempt{Number: 1})
			page.Observe(awsretry.Attempt{Number: 2})
			if got := minute(); got.PerSecond.Attempts[59] != 2 || got.PerSecond.Retries[59] != 1 || got.Attempts != 2*min(s+1, 60) {
				t.Fatalf("after %d s: %+v", s, got)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(58 * time.Second)
		if got := minute(); got.Attempts != 2 || got.PerSecond.Attempts[0] != 2 {
			t.Errorf("59 s later: %+v", got)
		}
		time.Sleep(time.Second)
		if got := minute(); got.Attempts != 0 {
			t.Errorf("a minute later: %+v", got)
		}
		time.Sleep(1000 * time.Hour)
		page.Observe(awsretry.Attempt{Number: 1})
		if got := minute(); got.Attempts != 1 {
			t.Errorf("much later: %+v", got)
		}
	})
}

// Attempts, retries, failures and refusals are what their names say.
func TestObserve(t *testing.T) {
	type counts struct {
		attempts, retries, failed, refused int
		by                                 map[string]int
	}
	for name, tt := range map[string]struct {
		attempt awsretry.Attempt
		want    counts
	}{
		"a success":     {awsretry.Attempt{Number: 1, Stop: awsretry.StopSuccess}, counts{attempts: 1}},
		"of a retry":    {awsretry.Attempt{Number: 3, Stop: awsretry.StopSuccess}, counts{attempts: 1, retries: 1}},
		"a failure":     {awsretry.Attempt{Number: 1, Class: awsretry.Transient}, counts{attempts: 1, failed: 1}},
		"permanent":     {awsretry.Attempt{Number: 1, Class: awsretry.Permanent, Stop: awsretry.StopPermanent}, counts{attempts: 1, failed: 1}},
		"no attempt":    {awsretry.Attempt{Class: awsretry.Throttled, Stop: awsretry.StopRateLimit}, counts{refused: 1, by: map[string]int{"rate_limit": 1}}},
		"of an error":   {awsretry.Attempt{Number: 1, Class: awsretry.Permanent, Stop: "mine"}, counts{1, 0, 1, 1, map[string]int{"other": 1}}},
		"no tokens":     {awsretry.Attempt{Number: 2, Class: awsretry.Timeout, Stop: awsretry.StopQuota}, counts{1, 1, 1, 1, map[string]int{"quota": 1}}},
		"used up":       {awsretry.Attempt{Number: 3, Class: awsretry.Timeout, Stop: awsretry.StopMaxAttempts}, counts{1, 1, 1, 1, map[string]int{"max_attempts": 1}}},
		"no time":       {awsretry.Attempt{Number: 1, Class: awsretry.Timeout, Stop: awsretry.StopDeadline}, counts{1, 0, 1, 1, map[string]int{"deadline": 1}}},
		"the caller":    {awsretry.Attempt{Number: 1, Class: awsretry.Permanent, Stop: awsretry.StopCanceled}, counts{1, 0, 1, 1, map[string]int{"canceled": 1}}},
		"a stream":      {awsretry.Attempt{Number: 1, Class: awsretry.Transient, Stop: awsretry.StopBody}, counts{1, 0, 1, 1, map[string]int{"body": 1}}},
		"long":          {awsretry.Attempt{Number: 1, Class: awsretry.Throttled, Stop: awsretry.StopRetryAfter}, counts{1, 0, 1, 1, map[string]int{"retry_after": 1}}},
		"an outer loop": {awsretry.Attempt{Number: 1, Class: awsretry.Transient, Stop: awsretry.StopOuterRetry}, counts{1, 0, 1, 1, map[string]int{"outer_retry": 1}}},
		"switched off":  {awsretry.Attempt{Number: 1, Class: awsretry.Transient, Stop: awsretry.StopDisabled}, counts{1, 0, 1, 1, map[string]int{"disabled": 1}}},
	} {
		var page Page
		page.Observe(tt.attempt)
		m := newReport(&page, time.Now()).Others[0].Minute
		got := counts{m.Attempts, m.Retries, m.Failed, m.Refused, m.Refusals}
		if !maps.Equal(got.by, tt.want.by) {
			t.Errorf("%s: %v, want %v", name, got.by, tt.want.by)
		}
		if got.by, tt.want.by = nil, nil; fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// The last failure stays until the next one, however long ago it was.
func TestLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page Page
		page.Observe(awsretry.Attempt{Number: 1, Class: awsretry.Transient, Err: errors.New("first")})
		page.Observe(awsretry.Attempt{
			Number: 2, Class: awsretry.Throttled, Stop: awsretry.StopQuota, Code: "SlowDown",
			Response: &http.Response{StatusCode: 503}, Partition: "",
		})
		failed := time.Now().UTC()
		time.Sleep(time.Hour)
		page.Observe(awsretry.Attempt{Number: 1, Stop: awsretry.StopSuccess})
		got := newReport(&page, time.Now()).Others[0].LastFailure
		want := lastFailure{Time: failed, Attempt: 2, Class: "throttled", Status: 503, Code: "SlowDown", Stop: "quota"}
		if got == nil || *got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A flood of made-up partitions does not grow the page, and forgets no partition
// that is in use.
func TestFlood(t *testing.T) {
	tr := &awsretry.Transport{
		Base: httpfake.Statuses(200), MaxPartitions: 50,
		Partition: func(req *http.Request) string { return req.URL.Host },
	}
	page := New(tr)
	tr.Observe = page.Observe
	send := func(host string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+host, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for n := range 100_000 {
		send(fmt.Sprint("host", n))
		if n%30 == 0 {
			send("in-use")
		}
	}
	if n := len(page.recent) + len(page.older); n > 2*50 {
		t.Errorf("the page has %d partitions", n)
	}
	r := newReport(page, time.Now())
	if n := len(r.Transports[0].Partitions); n > 51 {
		t.Errorf("the Transport has %d partitions", n)
	}
	shown := 0
	for _, p := range append(r.Transports[0].Partitions, r.Others...) {
		shown += p.Minute.Attempts
		if p.Name == "in-use" && p.Minute.Attempts < 100 {
			t.Errorf("of the partition in use only %d attempts are known", p.Minute.Attempts)
		}
	}
	if shown < 3000 {
		t.Errorf("%d attempts are known, of those in use alone 3334", shown)
	}
}

// Long names are cut, so that they do not grow the page either.
func TestLongNames(t *testing.T) {
	var page Page
	name := httpfake.Text(1000)
	page.Observe(awsretry.Attempt{Number: 1, Partition: name + "a"})
	page.Observe(awsretry.Attempt{Number: 1, Partition: name + "b"})
	if r := page.recent[name[:maxName]]; len(page.recent) != 1 || r == nil || len(r.name) != maxName {
		t.Errorf("%d records", len(page.recent))
	}
}

func TestNew(t *testing.T) {
	a, b := &awsretry.Transport{MaxPartitions: 7}, &awsretry.Transport{MaxPartitions: -1}
	page := New(nil, a, b, a, nil)
	if len(page.transports) != 2 || page.transports[0] != a || page.transports[1] != b || page.limit != 8 {
		t.Errorf("%d Transports, limit %d", len(page.transports), page.limit)
	}
	page.Add("late", new(awsretry.Transport))
	if len(page.transports) != 3 || page.limit != 8+defaultLimit {
		t.Errorf("%d Transports, limit %d", len(page.transports), page.limit)
	}
}

// Many observe and read at a time, and nothing is lost.
func TestConcurrentUse(t *testing.T) {
	const workers, each = 8, 2000
	page := New(&awsretry.Transport{MaxPartitions: 20})
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for n := range each {
				page.Observe(awsretry.Attempt{Number: 1 + n%3, Class: awsretry.Class(n % 2 * 2), Partition: fmt.Sprint((w + n) % 10)})
				if n%500 == 0 {
					get(t, page, "/")
				}
			}
		})
	}
	running.Wait()
	attempts := 0
	for _, p := range newReport(page, time.Now()).Others {
		attempts += p.Minute.Attempts
	}
	if attempts != workers*each {
		t.Errorf("%d attempts, want %d", attempts, workers*each)
	}
}
