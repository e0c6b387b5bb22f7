package interop

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/kit"
)

// A charge is made once although its response is lost, with a key or with
// IdempotentOnly, and up to three times without.
func TestDuplicates(t *testing.T) {
	kit.TakesLong(t)
	const calls = 10_000
	for _, tt := range []struct {
		name   string
		change func(*awsretry.Transport)
		most   int // duplicates
		least  int
	}{
		{"key", func(tr *awsretry.Transport) { tr.IdempotencyKey = awsretry.RandomKey }, 0, 0},
		{"IdempotentOnly", func(tr *awsretry.Transport) { tr.Policy = awsretry.IdempotentOnly(nil) }, 0, 0},
		{"neither", func(*awsretry.Transport) {}, calls, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shop := &shop{charges: map[string]int{}, keys: map[string]bool{}}
			server := httptest.NewServer(shop)
			server.Config.ErrorLog = kit.Quiet
			defer server.Close()
			pool := kit.Pool(t)
			tr := kit.Retrying(pool)
			tr.Quota.Capacity = -1
			tt.change(tr)
			client := &http.Client{Transport: tr}
			kit.InParallel(calls, 16, func(n int) {
				// A caller would look into an error.
				kit.Text(client.Post(server.URL+"/charge", "text/plain", strings.NewReader(fmt.Sprint(n))))
			})
			charged, twice := shop.duplicates()
			t.Logf("%d of %d charges are made, %d of them more than once", charged, calls, twice)
			if twice > tt.most || twice < tt.least || charged < calls*9/10 {
				t.Errorf("%d of %d charges are duplicates", twice, charged)
			}
		})
	}
}

// A shop charges, and loses one answer in ten after it has charged. It charges
// once for each key.
type shop struct {
	mu      sync.Mutex // guards the fields
	n       int
	charges map[string]int // by what the request says
	keys    map[string]bool
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	order, _ := io.ReadAll(r.Body) // it has a length
	s.mu.Lock()
	key := r.Header.Get("Idempotency-Key")
	if key == "" || !s.keys[key] {
		s.charges[string(order)]++
	}
	s.keys[key] = key != ""
	s.n++
	lost := s.n%10 == 0
	s.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
}

func (s *shop) duplicates() (charged, twice int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.charges {
		charged++
		if times > 1 {
			twice++
		}
	}
	return charged, twice
}
