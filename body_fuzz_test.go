package awsretry

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A script hands out the fuzzer's bytes, and zeros behind them.
type script struct{ rest []byte }

func (s *script) below(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b) % n
}

func (s *script) moment() { time.Sleep(time.Duration(s.below(4)) * time.Millisecond) }

var errFuzzSource = errors.New("the source broke")

// A fuzzSource is a request body that gives its data in pieces, and late.
type fuzzSource struct {
	script
	data    []byte
	failAt  int // -1: it ends well
	at      int
	reading atomic.Bool
	faults  atomic.Int32 // overlapping reads, reads behind Close
	closes  atomic.Int32
}

func (s *fuzzSource) Read(p []byte) (int, error) {
	if s.reading.Swap(true) || s.closes.Load() > 0 {
		s.faults.Add(1)
	}
	defer s.reading.Store(false)
	s.moment()
	end, err := len(s.data), io.EOF
	if s.failAt >= 0 {
		end, err = s.failAt, errFuzzSource
	}
	n := copy(p, s.data[s.at:min(end, s.at+8-s.below(9))]) // none at all too
	s.at += n
	if s.at == end && s.below(2) == 0 { // with the last of the data, or behind it
		return n, err
	}
	return n, nil
}

func (s *fuzzSource) Close() error { s.closes.Add(1); return nil }

// A fuzzBase reads as much of a body as its scripts say, before and after it answers; the third attempt reads it all.
type fuzzBase struct {
	scripts [4]script // of two attempts, before and after the answer
	t       *testing.T
	data    []byte // the source's
	sends   int
	last    []byte
	err     error // of the last attempt's reading
}

func (b *fuzzBase) RoundTrip(req *http.Request) (*http.Response, error) {
	b.sends++
	if b.sends == 3 {
		defer req.Body.Close()
		b.last, b.err = io.ReadAll(req.Body)
		if b.err != nil {
			return nil, b.err
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	}
	script := b.scripts[2*b.sends-2:][:2]
	read := b.readSome(&script[0], req.Body, nil)
	go func() {
		script[1].moment()
		b.readSome(&script[1], req.Body, read)
		script[1].moment()
		req.Body.Close()
		if script[1].below(2) == 0 {
			req.Body.Close()
		}
		if n, err := req.Body.Read(make([]byte, 8)); n > 0 || err == nil {
			b.t.Errorf("a closed body gives %d bytes, %v", n, err)
		}
	}()
	script[0].moment()
	if script[0].below(2) == 1 {
		req.Body.Close() // while the goroutine reads
	}
	return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
}

// readSome reads on in a body of which before was read, and checks that it is the source's.
func (b *fuzzBase) readSome(s *script, body io.Reader, before []byte) []byte {
	for range s.below(7) {
		p := make([]byte, s.below(12))
		n, err := body.Read(p)
		before = append(before, p[:n]...)
		if !bytes.HasPrefix(b.data, before) {
			b.t.Errorf("an attempt read %q", before)
		}
		if err != nil {
			break
		}
		s.moment()
	}
	return before
}

// FuzzRecorder: whatever attempts read of a body, and however late they close it, a retry's bytes are the source's, or no
// retry is made.
func FuzzRecorder(f *testing.F) {
	f.Add([]byte("hello, world"), []byte{3, 5, 1, 8, 2, 7}, []byte{4, 11, 0, 11, 1, 5, 2, 1, 9, 3}, 100, -1, false)
	f.Add([]byte("hello, world"), []byte{1, 1, 1, 1, 1, 1}, []byte{6, 3, 0, 3, 0, 200, 3, 3, 3}, 5, -1, true)
	f.Add([]byte("hello, world"), []byte{0, 8, 0, 8, 1, 0}, []byte{2, 4, 1, 1, 250, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 12, 7, false)
	f.Add([]byte{}, []byte{}, []byte{1, 1}, 0, -1, false)
	f.Add([]byte("x"), []byte{2, 1, 1, 2, 1, 1}, []byte{1, 1, 1, 1, 3, 3, 3, 1, 1, 1}, -1, -1, true)
	f.Fuzz(func(t *testing.T, data, sourceScript, baseScript []byte, limit, failAt int, known bool) {
		if len(data) > 1<<10 || len(sourceScript) > 1<<10 || len(baseScript) > 1<<10 {
			return // no more is learnt from longer ones
		}
		synctest.Test(t, func(t *testing.T) { // which finds what hangs, or is left behind
			if failAt < 0 || failAt > len(data) {
				failAt = -1
			}
			source := &fuzzSource{script: script{sourceScript}, data: data, failAt: failAt}
			base := &fuzzBase{t: t, data: data}
			for i := range base.scripts {
				base.scripts[i].rest = baseScript[len(baseScript)*i/4 : len(baseScript)*(i+1)/4]
			}
			tr := &Transport{Base: base, MaxBodyBuffer: int64(limit), Backoff: BackoffFunc(func(int, Class, time.Duration) time.Duration { return 0 })}
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://service.example", source)
			if err != nil {
				t.Fatal(err)
			}
			if known {
				req.ContentLength = int64(len(data))
			}
			resp, err := tr.RoundTrip(req)
			switch {
			case base.sends == 3 && failAt >= 0:
				if !errors.Is(err, errFuzzSource) || !bytes.Equal(base.last, data[:failAt]) {
					t.Errorf("the last attempt sent %q, %v; RoundTrip's error is %v", base.last, base.err, err)
				}
			case base.sends == 3:
				if err != nil || resp.StatusCode != 200 || !bytes.Equal(base.last, data) {
					t.Errorf("the last attempt sent %q of %q; %v", base.last, data, err)
				}
			default:
				record, _ := Outcome(resp)
				if err != nil || resp.StatusCode != 503 || record.Stop != StopBody {
					t.Errorf("given up after %d attempts: %v, %v", base.sends, resp, err)
				}
				kept := int64(limit)
				if limit == 0 {
					kept = defaultMaxBodyBuffer
				}
				if failAt < 0 && int64(len(data)) <= kept {
					t.Errorf("no attempt %d, although %d bytes could be kept", base.sends+1, kept)
				}
			}
			time.Sleep(time.Minute)
			if source.faults.Load() > 0 || source.closes.Load() != 1 {
				t.Errorf("%d reads at the same time or behind Close; closed %d times", source.faults.Load(), source.closes.Load())
			}
		})
	})
}

// FuzzRetryAfter: what a server asks for never shortens a pause, and never overflows it.
func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, seed := range []string{
		"", "0", "1", "120", "-1", "+5", "1.5", "0.000", "0.0001", ".5", "5.", "1e9", "9223372036", "9223372037", "18446744073709551617",
		"99999999999999999999999999", " 7 ", "7, 8", "0x10", "1_000", "٣", "NaN", "Inf",
		"Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT", "Sun Mar  1 12:00:30 2026",
		"Sun, 01 Mar 2020 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
	} {
		f.Add(seed, "10", int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, first, second string, pause int64) {
		one := retryAfter(http.Header{"Retry-After": {first}}, now)
		other := retryAfter(http.Header{"Retry-After": {second}}, now)
		both := retryAfter(http.Header{"Retry-After": {first, second}}, now)
		if one < 0 || other < 0 || both != max(one, other) {
			t.Errorf("Retry-After %q: %v, %q: %v, both: %v", first, one, second, other, both)
		}
		if value := retryAfterValue(first, now); value < 0 || value > one {
			t.Errorf("Retry-After %q: %v, untrimmed %v", first, one, value)
		}
		p := time.Duration(max(pause, 0))
		for _, value := range []string{first, second} {
			d := amzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, p)
			if d < p || d-p > amzRetryAfterSpan {
				t.Errorf("X-Amz-Retry-After %q makes %v of %v", value, d, p)
			}
		}
	})
}

// TestRetryAfterValues is what the fuzzer cannot know: what each means.
func TestRetryAfterValues(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const longest = time.Duration(1<<63 - 1)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "007": 7 * time.Second, "-7": 0, "+7": 0, "1.5": 2 * time.Second, "1.0": time.Second,
		"0.0000001": time.Second, ".5": 0, "5.": 0, "1e3": 0, "9223372036": longest, "9223372035": 9223372035 * time.Second, "99999999999999999999": longest, "soon": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:59:59 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": longest,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", value, got, want)
		}
	}
	for value, want := range map[string]time.Duration{
		"": 1000, "0": 1000, "1500": 1500, "10000": 6000, "invalid": 1000, "-1": 1000, "1.5": 1000, "999": 1000, "99999999999999999999": 6000, " 1500 ": 1500,
	} {
		if got := amzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, time.Second); got != want*time.Millisecond {
			t.Errorf("X-Amz-Retry-After %q: %v, want %v ms", value, got, want)
		}
	}
}
