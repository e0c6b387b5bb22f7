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
		name        string
		change      func(*awsretry.Transport)
		least, most int // duplicates
	}{
		{"key", func(tr *awsretry.Transport) { tr.IdempotencyKey = awsretry.RandomKey }, 0, 0},
		{"IdempotentOnly", func(tr *awsretry.Transport) { tr.Policy = awsretry.IdempotentOnly(nil) }, 0, 0},
		{"neither", func(*awsretry.Transport) {}, 500, calls},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex // guards the variables below
			requests, twice := 0, 0
			known := make(map[string]bool) // keys, and orders
			shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				order, _ := io.ReadAll(r.Body) // it has a length
				mu.Lock()
				defer mu.Unlock()
				key := r.Header.Get("Idempotency-Key")
				if key == "" || !known[key] {
					if known[string(order)] {
						twice++
					}
					known[key], known[string(order)] = true, true
				}
				if requests++; requests%10 == 0 {
					panic(http.ErrAbortHandler)
				}
			}))
			shop.Config.ErrorLog = kit.Quiet
			defer shop.Close()
			tr := kit.Retrying(kit.Pool(t))
			tr.Quota.Capacity = -1
			tt.change(tr)
			client := &http.Client{Transport: tr}
			kit.InParallel(calls, 16, func(n int) {
				// A caller would look into an error.
				kit.Text(client.Post(shop.URL+"/charge", "text/plain", strings.NewReader(fmt.Sprint(n))))
			})
			t.Logf("%d charges in %d requests are made again", twice, requests)
			if twice > tt.most || twice < tt.least || len(known) < calls {
				t.Errorf("%d charges are duplicates", twice)
			}
		})
	}
}
