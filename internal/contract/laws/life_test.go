package laws_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// The law of life: nothing that waits comes to rest, and when a service accepts
// everything again, the rate is back at nine tenths within a minute, and four round trips if the service is slow.

func TestLawOfLife(t *testing.T) {
	worlds.One(t, 158, lawOfLife)   // each call ends before its response, after a wait in line
	worlds.One(t, 41414, lawOfLife) // two callers of less than one call a second, with FailFast
	worlds.Each(t, 60, lawOfLife)
}

// A trouble is a time in which a service fails, throttles, is slow or is not called.
type trouble struct {
	from, to time.Duration
	status   int           // of a share of the responses; 0 means 200
	share    float64       // of the requests
	limit    float64       // requests per second above which it throttles; 0 means none
	slower   time.Duration // how much longer it takes
	idle     bool          // its callers pause
}

// A troubled service accepts everything except in troubles.
type troubled struct {
	troubles   []trouble
	answer     time.Duration
	retryAfter time.Duration // 0 means none
	started    time.Time

	mu     sync.Mutex
	r      *rand.Rand
	tokens float64 // of a limit, at at
	at     time.Duration
	sent   []time.Duration
}

func (s *troubled) RoundTrip(req *http.Request) (*http.Response, error) {
	status, answer := s.arrive()
	if !pause(req.Context(), answer) {
		return nil, req.Context().Err()
	}
	resp := httpfake.Empty(status, req)
	if status != http.StatusOK && s.retryAfter > 0 {
		resp.Header.Set("Retry-After", fmt.Sprint(s.retryAfter.Seconds()))
	}
	return resp, nil
}

// pause sleeps, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *troubled) arrive() (status int, answer time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.started)
	status, answer = http.StatusOK, s.answer
	for _, one := range s.troubles {
		if now < one.from || now >= one.to {
			continue
		}
		answer += one.slower
		if one.status > 0 && s.r.Float64() < one.share {
			status = one.status
		}
		if one.limit > 0 {
			s.tokens, s.at = min(s.tokens+one.limit*(now-s.at).Seconds(), max(one.limit/10, 1)), now
			if s.tokens--; s.tokens < 0 {
				s.tokens, status = s.tokens+1, http.StatusTooManyRequests
			}
		}
	}
	s.sent = append(s.sent, now)
	return status, answer
}

// sentSince returns how many requests were sent at a time and later.
func (s *troubled) sentSince(t time.Duration) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearch(s.sent, t)
	return float64(len(s.sent) - first)
}

// end returns the end of the last trouble.
func (s *troubled) end() time.Duration { return s.troubles[len(s.troubles)-1].to }

// idle returns how much of a span the callers pause.
func (s *troubled) idle(from, to time.Duration) (d time.Duration) {
	for _, one := range s.troubles {
		if one.idle {
			d += max(min(one.to, to)-max(one.from, from), 0)
		}
	}
	return d
}

// drawTroubles draws what happens from a time on. demand is the rate without limits.
func drawTroubles(r *rand.Rand, at time.Duration, demand float64) (all []trouble) {
	for range worlds.Pick(r, 1, 1, 2, 4) {
		one, longest := trouble{from: at}, worlds.Pick(r, 1., 10, 60, 600, 1800)
		switch r.IntN(8) {
		case 0, 1, 2:
			one.status, one.share = http.StatusTooManyRequests, 1
		case 3:
			one.status, one.share = http.StatusTooManyRequests, worlds.Pick(r, 0.02, 0.05, 0.2, 0.5, 0.9)
		case 4:
			one.status, one.share = http.StatusServiceUnavailable, worlds.Pick(r, 0.2, 1)
		case 5:
			one.limit = demand * math.Pow(r.Float64(), 3)
		case 6:
			one.slower = worlds.Pick(r, time.Second, 10*time.Second)
		case 7:
			one.idle = true
		}
		if !one.idle && one.share < 1 || one.status == http.StatusServiceUnavailable { // not too many requests
			longest = min(longest, 10_000/demand)
		}
		at += seconds((0.1 + 0.9*r.Float64()) * longest)
		one.to = at
		all = append(all, one)
		if worlds.Chance(r, .5) {
			at += seconds(r.Float64() * min(60, 5000/demand))
		}
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func lawOfLife(t *testing.T, r *rand.Rand) {
	callers := worlds.Pick(r, 1, 1, 2, 8, 64, 300)
	s := &troubled{
		answer: time.Duration(worlds.Pick(r, 1, 10, 100, 100, 1000, 3000)) * time.Millisecond,
		r:      rand.New(rand.NewPCG(r.Uint64(), 0)),
	}
	demand := max(0.3*math.Pow(10_000, r.Float64()), float64(callers)/10) // up to 3,000 requests per second
	demand = min(demand, float64(callers)/(s.answer+time.Millisecond).Seconds())
	think := seconds(float64(callers)/demand) - s.answer
	window := max(2*time.Second, seconds(20/demand))
	s.troubles = drawTroubles(r, 2*window, demand)
	if worlds.Chance(r, .2) {
		s.retryAfter = worlds.Pick(r, time.Second, 5*time.Second)
	}
	tr := &awsretry.Transport{
		Base: s, Mode: awsretry.Adaptive, MaxAttempts: 1 + r.IntN(3), ShareRetryAfter: worlds.Chance(r, .5),
		RateLimit: awsretry.RateLimitConfig{
			Pacing:   worlds.Pick(r, awsretry.CubicPacing, awsretry.ScaledPacing, awsretry.ScaledPacing),
			FailFast: worlds.Chance(r, .1),
			MaxWait:  worlds.Pick(r, 0, 0, 0, 0, time.Second),
		},
		Quota: worlds.Pick(r, awsretry.QuotaConfig{}, awsretry.QuotaConfig{Share: 0.2}, awsretry.QuotaConfig{Wait: true, RefillPerSecond: 100}),
	}
	if tr.RateLimit.Pacing == awsretry.CubicPacing {
		tr.RateLimit.MinCapacity = 2 // with one token and FailFast, up to a quarter of few calls is refused for good
	}
	var limit time.Duration // of a call; 0 means none
	if worlds.Chance(r, .2) {
		limit = s.answer + worlds.Pick(r, time.Second, 5*time.Second, time.Minute)
	}
	canceled := worlds.Chance(r, .5) // by the caller, not by its deadline

	s.started = time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	seed := r.Uint64()
	for i := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for before := 0.; pause(ctx, max(seconds(think.Seconds()*(before+r.Float64())), time.Millisecond)); before = 0.5 {
				now := time.Since(s.started)
				for _, one := range s.troubles {
					if one.idle && one.from <= now && now < one.to {
						pause(ctx, one.to-now+seconds(think.Seconds()*r.Float64()))
					}
				}
				call, end := context.WithCancel(ctx)
				if limit > 0 && canceled {
					time.AfterFunc(limit, end)
				} else if limit > 0 {
					call, end = context.WithTimeout(ctx, limit)
				}
				if resp, err := tr.RoundTrip(httpfake.Request(t, call, "GET", nil)); err == nil {
					resp.Body.Close()
				} else {
					pause(ctx, seconds((0.1+float64(callers)/50)*r.Float64()))
				}
				end()
			}
		})
	}
	back, within := 0.0, time.Minute+4*s.answer // back is the part of the rate from before
	for at := time.Duration(0); at <= within && back < 0.9; at += window / 4 {
		time.Sleep(time.Until(s.started.Add(s.end() + at + window)))
		back = (s.sentSince(s.end()+at) + 1) / demand / window.Seconds()
	}
	stop()
	all.Wait()
	what := fmt.Sprintf("%d callers, %.3g/s, answers after %v, Retry-After %v, calls end after %v (canceled: %v)\n%+v\n%+v %+v, %d attempts",
		callers, demand, s.answer, s.retryAfter, limit, canceled, s.troubles, tr.RateLimit, tr.Quota, tr.MaxAttempts)
	if back < 0.9 {
		t.Errorf("after %v, %.2f of the rate from before\n%s", within, back, what)
	}
	const longest = 45 * time.Second // a delay of 20 s, a Retry-After of 5 s, a pause of 15 s, and a token of the lowest rate
	for i := 1; i < len(s.sent); i++ {
		if from, to := s.sent[i-1], s.sent[i]; to-from-s.idle(from, to) > longest+s.answer {
			t.Errorf("nothing was sent from %v to %v\n%s", from, to, what)
		}
	}
}
