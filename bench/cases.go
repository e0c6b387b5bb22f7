package main

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// A benchCase is one exchange that every library makes.
type benchCase struct {
	name      string
	method    string
	payload   []byte // of a bytes.Reader; nil: no body
	statuses  []int
	errorBody bool // a failure has a small JSON body; otherwise http.NoBody
	adaptive  bool
	parallel  bool // by two goroutines; ns/op is then the time that passes per request of either
}

var (
	success  = []int{http.StatusOK}
	oneRetry = []int{http.StatusServiceUnavailable, http.StatusOK}
	kib      = make([]byte, 1<<10)
	mib      = make([]byte, 1<<20)
)

var cases = []benchCase{
	{name: "GET", method: http.MethodGet, statuses: success},
	{name: "GET, two goroutines", method: http.MethodGet, statuses: success, parallel: true},
	{name: "POST 1 KiB", method: http.MethodPost, payload: kib, statuses: success},
	{name: "POST 1 MiB", method: http.MethodPost, payload: mib, statuses: success},
	{name: "GET, one retry, no error body", method: http.MethodGet, statuses: oneRetry},
	{name: "GET, one retry, JSON error body", method: http.MethodGet, statuses: oneRetry, errorBody: true},
	{name: "POST 1 KiB, one retry", method: http.MethodPost, payload: kib, statuses: oneRetry},
	{name: "GET, adaptive mode", method: http.MethodGet, statuses: success, adaptive: true},
}

const goroutines = 2

// over returns the library's mode for the case, or nil if it has none.
func (c benchCase) over(lib library) func(http.RoundTripper) send {
	if c.adaptive {
		return lib.adaptive
	}
	return lib.standard
}

// benchmark measures the case through the library.
func (c benchCase) benchmark(b *testing.B, lib library) {
	b.ReportAllocs()
	s, err := newStub(c, goroutines)
	if err != nil {
		b.Fatal(err)
	}
	send := c.over(lib)(s)
	if !c.parallel {
		x := &s.exchanges[0]
		for b.Loop() {
			once(b, send, x, lib.name)
		}
		return
	}
	var started atomic.Int32
	b.RunParallel(func(pb *testing.PB) {
		x := &s.exchanges[started.Add(1)-1]
		for pb.Next() {
			once(b, send, x, lib.name)
		}
	})
}

func once(b *testing.B, send send, x *exchange, lib string) {
	x.rewind()
	resp, err := send(x)
	if lib == bareName { // it has no retries, so the benchmark sends each attempt
		for range len(x.statuses) - 1 {
			resp.Body.Close()
			if x.reader != nil {
				x.reader.Reset(x.payload)
			}
			resp, err = send(x)
		}
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Error(resp, err)
		return
	}
	resp.Body.Close()
}
