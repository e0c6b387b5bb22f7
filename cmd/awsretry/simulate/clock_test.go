package simulate

import (
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

func TestTickFor(t *testing.T) {
	for owners, want := range map[int]time.Duration{1: 2, 2: 4, 3: 8, 5: 10, 12_501: 31_250, 500_000: time.Millisecond, 1e9: time.Second} {
		if got := tickFor(owners); got != want {
			t.Errorf("%d owners: tick %d ns, want %d", owners, got, want)
		}
	}
}

func TestInstantsBelongToOneOwner(t *testing.T) {
	g := grid{tick: tickFor(7)}
	at := map[time.Duration]int{}
	for owner := range 7 {
		for from := time.Duration(0); from < 60; from++ {
			next := g.next(owner, from)
			if next < from || next >= from+g.tick || !g.owns(owner, next) {
				t.Fatalf("owner %d's next instant from %d on is %d", owner, from, next)
			}
			for _, instant := range []time.Duration{next, g.deadline(owner, from)} {
				key := 2*owner + int(instant-next)
				if other, taken := at[instant]; taken && other != key {
					t.Fatalf("instant %d is of two owners, or of an answer and a deadline", instant)
				}
				at[instant] = key
			}
		}
	}
}

func TestRandomIsUniform(t *testing.T) {
	const n = 100_000
	var sum, squares, normals, normalSquares float64
	for i := range uint64(n) {
		u := unit(random(3, i))
		sum += u
		squares += u * u
		z := normal(random(3, i, 1), random(3, i, 2))
		normals += z
		normalSquares += z * z
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"mean", sum / n, 1. / 2}, {"mean square", squares / n, 1. / 3}, {"normal mean", normals / n, 0}, {"normal variance", normalSquares / n, 1},
	} {
		if math.Abs(c.got-c.want) > 0.01 {
			t.Errorf("%s %v, want %v", c.what, c.got, c.want)
		}
	}
	if random(1, 2) == random(2, 1) || random(1) == random(1, 0) {
		t.Error("different parts give the same number")
	}
}

// The pauses that are built from public types have the range of those that the library makes itself.
func TestPausesAreTheLibrarys(t *testing.T) {
	failing := func(status int) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
		})
	}
	least := func(time.Duration) time.Duration { return 0 }
	most := func(d time.Duration) time.Duration { return d }
	for _, mode := range []struct {
		mode     awsretry.Mode
		revision awsretry.Revision
	}{{awsretry.Standard, awsretry.Classic}, {awsretry.Adaptive, awsretry.Classic}, {awsretry.Standard, awsretry.Revision2026}, {awsretry.Legacy, awsretry.Classic}} {
		for status, class := range map[int]awsretry.Class{429: awsretry.Throttled, 503: awsretry.Transient} {
			const attempts = 12
			var low, high [attempts]time.Duration
			synctest.Test(t, func(t *testing.T) {
				for draw := range 200 {
					transport := &awsretry.Transport{Base: failing(status), Mode: mode.mode, Revision: mode.revision, MaxAttempts: attempts,
						Quota: awsretry.QuotaConfig{Capacity: -1},
						Observe: func(a awsretry.Attempt) {
							i := a.Number - 1
							if a.Stop == "" && (draw == 0 || a.Delay < low[i]) {
								low[i] = a.Delay
							}
							high[i] = max(high[i], a.Delay)
						}}
					req, _ := http.NewRequest(http.MethodGet, "http://"+host, nil)
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
				}
			})
			for n := range attempts - 1 {
				from := seededPauses(mode.mode, mode.revision, least).Delay(n, class, 0)
				to := seededPauses(mode.mode, mode.revision, most).Delay(n, class, 0)
				near := (to - from) / 10
				if low[n] < from || low[n] > from+near || high[n] > to || high[n] < to-near {
					t.Errorf("%v %v, %v, retry %d: the library pauses %v to %v, the simulator %v to %v",
						mode.mode, mode.revision, class, n, low[n], high[n], from, to)
				}
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
