package services

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A secondaryLimit is a service that refuses all requests for a while if it gets too
// many in any minute, in any hour, or at the same time.
type secondaryLimit struct {
	perMinute, perHour, atOnce int

	latency  time.Duration
	lock     time.Duration // 0 means a minute
	says     bool          // refusals have a Retry-After
	prolongs bool          // a request during the lock restarts the lock

	mu       sync.Mutex
	accepted []time.Time
	inFlight int
	lockedAt time.Time
	until    time.Time

	locks  []time.Time
	during int // requests during a lock that were sent after its first refusal was received
	ok     int
}

func (s *secondaryLimit) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	s.count(1)
	defer s.count(-1)
	time.Sleep(s.latency/2 + rand.N(s.latency/2))
	refused := s.refuses(sent, time.Now())
	time.Sleep(s.latency / 2)
	if !refused {
		return httpfake.Response(req, 200, http.NoBody), nil
	}
	const message = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`
	resp := httpfake.Response(req, 403, io.NopCloser(strings.NewReader(message)))
	if s.says {
		resp.Header.Set("Retry-After", "60")
	}
	return resp, nil
}

func (s *secondaryLimit) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += n
}

func (s *secondaryLimit) refuses(sent, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lock := s.lock
	if lock == 0 {
		lock = time.Minute
	}
	if now.Before(s.until) {
		if sent.After(s.lockedAt.Add(s.latency)) {
			s.during++
		}
		if s.prolongs {
			s.until = now.Add(lock)
		}
		return true
	}
	over := func(limit int, span time.Duration) bool {
		return limit > 0 && len(s.accepted) >= limit && now.Sub(s.accepted[len(s.accepted)-limit]) < span
	}
	if over(s.perMinute, time.Minute) || over(s.perHour, time.Hour) || s.atOnce > 0 && s.inFlight > s.atOnce {
		s.locks = append(s.locks, now)
		s.lockedAt, s.until = now, now.Add(lock)
		return true
	}
	s.accepted = append(s.accepted, now)
	s.ok++
	return false
}

// Twenty callers exceed a secondary limit at most five times in any half hour. A
// call fails if a lock refuses each of its attempts, which is rare.
func TestSecondaryLimit(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		limit *secondaryLimit
		think time.Duration
	}{
		{"900 a minute", &secondaryLimit{perMinute: 900, latency: 200 * ms}, 0},
		{"900 a minute, with Retry-After, and the lock begins again", &secondaryLimit{perMinute: 900, latency: 50 * ms, says: true, prolongs: true}, 0},
		{"80 a minute", &secondaryLimit{perMinute: 80, latency: 400 * ms}, 0},
		{"80 a minute, callers who rest", &secondaryLimit{perMinute: 80, latency: 400 * ms}, 5 * time.Second},
		{"80 a minute and 500 an hour", &secondaryLimit{perMinute: 80, perHour: 500, latency: 400 * ms}, 0},
		{"30 a minute, and the lock begins again", &secondaryLimit{perMinute: 30, latency: 400 * ms, prolongs: true}, 0},
		{"10 at once", &secondaryLimit{atOnce: 10, latency: 300 * ms}, 0},
		{"900 a minute, a lock of two minutes", &secondaryLimit{perMinute: 900, latency: 200 * ms, lock: 2 * time.Minute}, 0},
	} {
		for _, mode := range []struct {
			name      string
			transport *awsretry.Transport
		}{
			{"standard", &awsretry.Transport{}},
			{"adaptive", &awsretry.Transport{
				Mode:      awsretry.Adaptive,
				RateLimit: awsretry.RateLimitConfig{ScaleConstant: 1e-8},
			}},
		} {
			t.Run(tt.name+"/"+mode.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limit, tr := tt.limit.again(), mode.transport
					tr.Base = limit
					GitHub.Apply(tr)
					lost := callFor(t, tr, 20, 45*time.Minute, tt.think)
					worst := mostWithin(limit.locks, 30*time.Minute)
					t.Logf("%d locks, %d in the worst half hour, %d requests during them, %d accepted", len(limit.locks), worst, limit.during, limit.ok)
					if worst > 5 || lost > 1 {
						t.Errorf("%d locks in half an hour, %d calls are lost", worst, lost)
					}
					// The first callers after the minute cannot know that the lock is longer.
					if limit.during > 0 && limit.lock == 0 || limit.during > 10 {
						t.Errorf("%d requests were sent during the locks", limit.during)
					}
				})
			})
		}
	}
}

// again returns a new service of the same kind.
func (s *secondaryLimit) again() *secondaryLimit {
	return &secondaryLimit{
		perMinute: s.perMinute, perHour: s.perHour, atOnce: s.atOnce,
		latency: s.latency, lock: s.lock, says: s.says, prolongs: s.prolongs,
	}
}

// callFor runs callers that call in a loop for d. It returns how many calls fail.
func callFor(t *testing.T, rt http.RoundTripper, callers int, d, think time.Duration) (lost int) {
	end := time.Now().Add(d)
	failures := make(chan int, callers)
	for range callers {
		go func() {
			failed := 0
			for time.Now().Before(end) {
				req, err := http.NewRequestWithContext(t.Context(), "GET", "https://api.github.com/repos/a/b", nil)
				if err != nil {
					panic(err)
				}
				if resp, err := rt.RoundTrip(req); err != nil || resp.StatusCode != 200 {
					failed++
				}
				time.Sleep(think/2 + rand.N(think+1))
			}
			failures <- failed
		}()
	}
	for range callers {
		lost += <-failures
	}
	return lost
}

// mostWithin returns the maximum number of the times within one span.
func mostWithin(times []time.Time, span time.Duration) (most int) {
	for first := range times {
		n := 0
		for _, at := range times[first:] {
			if at.Sub(times[first]) <= span {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// No matter when the requests after a wait are refused, at most five waits begin in
// half an hour, and the longest is about half an hour. After a quiet half hour, all
// trips are forgotten.
func TestTripsAreFew(t *testing.T) {
	for seed := range uint64(50) {
		var trips trips
		random := rand.New(rand.NewPCG(seed, 0))
		start := time.Now()
		now, asked := start, time.Duration(random.Int64N(int64(2*time.Minute)))
		var began []time.Time
		for now.Before(start.Add(6 * time.Hour)) {
			began = append(began, now)
			wait := trips.wait("a", asked, now)
			if wait < asked || wait > 32*time.Minute {
				t.Fatalf("a wait of %v, of which %v are asked for", wait, asked)
			}
			late := now.Add(wait / 2) // the refusal of a request that was sent before
			if again := trips.wait("a", asked, late); again != wait {
				t.Fatalf("a refusal during the wait makes it %v, not %v", again, wait)
			}
			now = late.Add(wait + time.Duration(random.Int64N(int64(5*time.Minute))))
		}
		if most := mostWithin(began, tripMemory); most > 5 {
			t.Errorf("seed %d: %d waits begin within half an hour", seed, most)
		}
		if wait := trips.wait("a", asked, now.Add(2*time.Hour)); wait != asked {
			t.Errorf("after two hours the wait is %v, not %v", wait, asked)
		}
	}
}

// The number of accounts is limited. Quiet accounts are forgotten first.
func TestTripsAreBounded(t *testing.T) {
	var trips trips
	now := time.Now()
	for i := range 3 * mostAccounts {
		if wait := trips.wait(fmt.Sprint(i), time.Second, now); wait != time.Second {
			t.Fatalf("the first wait is %v", wait)
		}
	}
	if n := len(trips.accounts); n != mostAccounts {
		t.Errorf("%d accounts are remembered, not %d", n, mostAccounts)
	}
	trips.wait("new", time.Second, now.Add(time.Hour))
	if n := len(trips.accounts); n != 1 {
		t.Errorf("an hour later %d accounts are remembered, not one", n)
	}
}

// All limits of an account count together. Those of two accounts do not.
func TestAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr awsretry.Transport
		GitHub.Apply(&tr)
		delay := func(url, token string) time.Duration {
			req, err := http.NewRequest("GET", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", token)
			wait, _ := tr.RetryAfter(httpfake.Response(req, 429, http.NoBody), nil)
			time.Sleep(wait + time.Second)
			return wait
		}
		const core, search = "https://api.github.com/user", "https://api.github.com/search/issues"
		for i, tt := range []struct {
			url, token string
			want       time.Duration
		}{
			{core, "1", time.Minute}, {search, "1", 2 * time.Minute}, {core, "2", time.Minute}, {core, "1", 4 * time.Minute},
		} {
			if wait := delay(tt.url, tt.token); wait != tt.want {
				t.Errorf("%d: a wait of %v, not %v", i, wait, tt.want)
			}
		}
	})
}
