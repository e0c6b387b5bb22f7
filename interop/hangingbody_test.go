package interop

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// A hangingService responds to the first request for each path with an error
// whose body begins and does not end before the client closes it.
type hangingService struct {
	status int
	header []string
	seen   sync.Map     // the paths
	open   atomic.Int32 // responses that hang
}

func (s *hangingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, again := s.seen.LoadOrStore(r.URL.Path, true); again {
		io.WriteString(w, "done")
		return
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	for i := 0; i < len(s.header); i += 2 {
		w.Header().Set(s.header[i], s.header[i+1])
	}
	w.WriteHeader(s.status)
	io.WriteString(w, "x")
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// otelhttp hides that an *http.Transport sends the requests, and wraps its
// bodies. The error bodies that hang still end with their attempts, though the
// callers have neither a deadline nor a time-out.
func TestHangingBodiesEndWithTheirAttempts(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "HTTP/3"} {
		for _, service := range []*hangingService{
			{status: 503},
			{status: 429, header: []string{"X-Amzn-ErrorType", "ThrottlingException"}},
		} {
			t.Run(protocol+" "+strconv.Itoa(service.status), func(t *testing.T) {
				var base http.RoundTripper
				var url string
				if protocol == "HTTP/3" {
					server, h3 := serveHTTP3(t, service.ServeHTTP)
					h3.QUICConfig.KeepAlivePeriod = 100 * time.Millisecond // or an idle connection ends soon
					base, url = h3, server.url()
				} else {
					server := httpfake.Serve(t, protocol, service.ServeHTTP)
					base, url = server.Base, server.URL+"/"
				}
				const calls = 20
				tr := retrying(otelhttp.NewTransport(base))
				inParallel(calls, calls, func(i int) {
					resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, url+strconv.Itoa(i), nil))
					if err != nil {
						t.Error(err)
						return
					}
					if got := httpfake.ReadAll(t, resp); resp.StatusCode != 200 || got != "done" {
						t.Errorf("%s: %q", resp.Status, got)
					}
				})
				start := time.Now()
				eventually(func() bool { return service.open.Load() == 0 || time.Since(start) > 5*time.Second })
				if open := service.open.Load(); open > 0 {
					t.Errorf("%d of %d responses are open after the calls", open, calls)
				}
				wantNoGoroutines(t)
			})
		}
	}
}
