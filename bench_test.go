package awsretry_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
)

// stub answers every request from a list of statuses, over and over, without a body and without allocating.
type stub struct {
	answers []*http.Response
	n       int
}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	resp := s.answers[s.n%len(s.answers)]
	s.n++
	resp.Body, resp.Request = http.NoBody, req
	return resp, nil
}

func answering(statuses ...int) *stub {
	s := new(stub)
	for _, status := range statuses {
		s.answers = append(s.answers, &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody})
	}
	return s
}

func noPause(int, awsretry.Class, time.Duration) time.Duration { return 0 }

func benchmark(b *testing.B, rt http.RoundTripper, req *http.Request, rewind func()) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if rewind != nil {
			rewind()
		}
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
	}
}

func newRequest(tb testing.TB, method string, body io.Reader) *http.Request {
	tb.Helper()
	req, err := http.NewRequest(method, "http://service.example/path", body)
	if err != nil {
		tb.Fatal(err)
	}
	return req
}

func BenchmarkGet(b *testing.B) {
	b.Run("stub alone", func(b *testing.B) {
		benchmark(b, answering(200), newRequest(b, "GET", nil), nil)
	})
	b.Run("awsretry", func(b *testing.B) {
		benchmark(b, &awsretry.Transport{Base: answering(200)}, newRequest(b, "GET", nil), nil)
	})
	b.Run("adaptive", func(b *testing.B) {
		benchmark(b, &awsretry.Transport{Base: answering(200), Mode: awsretry.Adaptive}, newRequest(b, "GET", nil), nil)
	})
}

// Two goroutines and more: nothing that the requests share is written.
func BenchmarkGetParallel(b *testing.B) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
	tr := &awsretry.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil })}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := newRequest(b, "GET", nil)
		for pb.Next() {
			if _, err := tr.RoundTrip(req); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkPost(b *testing.B) {
	content := make([]byte, 1024)
	payload := bytes.NewReader(content)
	req := newRequest(b, "POST", payload)
	rewind := func() { payload.Reset(content) }
	b.Run("stub alone", func(b *testing.B) { benchmark(b, answering(200), req, rewind) })
	b.Run("awsretry", func(b *testing.B) { benchmark(b, &awsretry.Transport{Base: answering(200)}, req, rewind) })
}

func BenchmarkRetry(b *testing.B) {
	b.Run("awsretry", func(b *testing.B) {
		benchmark(b, &awsretry.Transport{Base: answering(503, 200), Backoff: awsretry.BackoffFunc(noPause)}, newRequest(b, "GET", nil), nil)
	})
}
