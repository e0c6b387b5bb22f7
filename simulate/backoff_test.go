package simulate

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// The delays that are built from public types have the range of the library's
// own.
func TestDelaysAreTheLibrarys(t *testing.T) {
	for _, mode := range []struct {
		mode     awsretry.Mode
		revision awsretry.Revision
	}{
		{awsretry.Standard, awsretry.Classic},
		{awsretry.Adaptive, awsretry.Classic},
		{awsretry.Standard, awsretry.Revision2026},
		{awsretry.Legacy, awsretry.Classic},
	} {
		for status, class := range map[int]awsretry.Class{429: awsretry.Throttled, 503: awsretry.Transient} {
			t.Run(fmt.Sprint(mode.mode, " ", mode.revision, " ", class), func(t *testing.T) {
				low, high := libraryDelays(t, status, mode.mode, mode.revision)
				least := func(time.Duration) time.Duration { return 0 }
				most := func(d time.Duration) time.Duration { return d }
				for n := range low {
					from := seededBackoff(mode.mode, mode.revision, least).Delay(n, class, 0)
					to := seededBackoff(mode.mode, mode.revision, most).Delay(n, class, 0)
					near := to / 10
					if low[n] < from || low[n] > from+near || high[n] > to || high[n] < to-near {
						t.Errorf("retry %d: the library's delays are %v to %v, the simulator's %v to %v",
							n, low[n], high[n], from, to)
					}
				}
			})
		}
	}
}

// libraryDelays returns the shortest and the longest of many delays before each
// retry.
func libraryDelays(t *testing.T, status int, mode awsretry.Mode, revision awsretry.Revision) (
	low, high []time.Duration,
) {
	const attempts = 12
	low, high = make([]time.Duration, attempts-1), make([]time.Duration, attempts-1)
	synctest.Test(t, func(t *testing.T) {
		for draw := range 200 {
			transport := &awsretry.Transport{
				Base: failing(status), Mode: mode, Revision: revision,
				MaxAttempts: attempts, Quota: awsretry.QuotaConfig{Capacity: -1},
				Observe: func(a awsretry.Attempt) {
					if a.Stop != "" {
						return
					}
					i := a.Number - 1
					if draw == 0 || a.Delay < low[i] {
						low[i] = a.Delay
					}
					high[i] = max(high[i], a.Delay)
				},
			}
			resp, err := transport.RoundTrip(newRequest())
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
	})
	return low, high
}

func failing(status int) http.RoundTripper {
	return roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newRequest() *http.Request {
	req, _ := http.NewRequest(http.MethodGet, "http://"+host, nil) // the URL is well-formed
	return req
}
