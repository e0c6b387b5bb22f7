package delivery

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"testing"
)

// One buffer serves the retries and the dead letter.
func TestStreamIsKeptOnce(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	for _, size := range []int64{maxKept, 4 * maxKept} {
		req := post(t, "http://a.example/", "")
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(io.LimitReader(zeros{}, size)), nil, -1
		before, kept := heap(), int64(0)
		measure := func() { kept = max(kept, heap()-before) }
		tr := &Transport{
			Policy: parse(t, `{"healthyRetryPolicy":{"numRetries":1,"numNoDelayRetries":1}}`),
			Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				io.Copy(io.Discard, req.Body)
				measure()
				req.Body.Close()
				return answerWith(503, req), nil
			}),
			DeadLetter: func(_ context.Context, dead DeadLetter) error {
				measure()
				n, err := io.Copy(io.Discard, dead.Request.Body)
				if whole := err == nil; n != size && whole || whole != (size <= maxKept) {
					t.Errorf("%d bytes: the dead letter has %d, %v", size, n, err)
				}
				return nil
			},
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if limit := int64(maxKept) + maxKept/4; kept > limit {
			t.Errorf("%d bytes: %d bytes are kept, want at most %d", size, kept, limit)
		}
		t.Logf("%d bytes: kept %d", size, kept)
	}
}
