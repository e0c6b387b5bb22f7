package contract_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A script hands out the bytes of the fuzzer, and then zeros.
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
	faults  atomic.Int32 // overlapping reads, and reads after Close
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
	if s.at == end && s.below(2) == 0 { // with the last of the data, or after it
		return n, err
	}
	return n, nil
}

func (s *fuzzSource) Close() error { s.closes.Add(1); return nil }

// A fuzzBase does with a body what its scripts say, before and after it
// responds: it reads, closes it and reads again, sends it again by GetBody, or
// never closes it. The third attempt reads it whole.
type fuzzBase struct {
	scripts [4]script // of two attempts, before and after the response
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
	view := &fuzzView{base: b, body: req.Body, again: req.GetBody}
	view.play(&script[0])
	go func() {
		script[1].moment()
		view.play(&script[1])
		if script[1].below(4) == 3 {
			return // and never closes it
		}
		script[1].moment()
		view.body.Close()
		if script[1].below(2) == 0 {
			view.body.Close()
		}
		if n, err := view.body.Read(make([]byte, 8)); view.read && (n > 0 || err == nil) {
			b.t.Errorf("a closed body gives %d bytes, %v", n, err)
		}
	}()
	script[0].moment()
	if script[0].below(2) == 1 {
		view.close() // while the goroutine reads
	}
	if script[0].below(4) == 3 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
}

// A fuzzView is the body of one attempt.
type fuzzView struct {
	base  *fuzzBase
	again func() (io.ReadCloser, error)

	mu   sync.Mutex // guards body for close
	body io.ReadCloser
	read bool
	got  []byte
}

func (v *fuzzView) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.body.Close()
}

// play reads the body, and checks that it is the beginning of the data.
func (v *fuzzView) play(s *script) {
	for range s.below(7) {
		switch s.below(9) {
		case 7:
			v.body.Close()
			if v.read {
				return
			}
			continue
		case 8:
			if body, err := v.again(); err == nil {
				v.mu.Lock()
				v.body, v.read, v.got = body, false, nil
				v.mu.Unlock()
			}
			continue
		}
		p := make([]byte, s.below(12))
		n, err := v.body.Read(p)
		v.read = v.read || len(p) > 0
		v.got = append(v.got, p[:n]...)
		if !bytes.HasPrefix(v.base.data, v.got) {
			v.base.t.Errorf("an attempt read %q", v.got)
		}
		if err != nil {
			break
		}
		s.moment()
	}
}

// Whatever the attempts read of a body, and however they close it, a retry
// sends the source's bytes, or is not made.
func FuzzRequestBody(f *testing.F) {
	hello := []byte("hello, world")
	f.Add(hello, []byte{3, 5, 1, 8, 2, 7}, []byte{4, 0, 11, 0, 0, 11, 1, 0, 5, 2, 0, 1, 9, 3}, 100, -1, false)
	f.Add(hello, []byte{1, 1, 1, 1, 1, 1}, []byte{6, 0, 3, 0, 0, 3, 0, 200, 3, 3, 3}, 5, -1, true)
	f.Add(hello, []byte{0, 8, 0, 8, 1, 0}, []byte{2, 7, 4, 1, 8, 1, 250, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 12, 7, false)
	f.Add([]byte{}, []byte{}, []byte{1, 1}, 0, -1, false)
	f.Add([]byte("x"), []byte{2, 1, 1, 2, 1, 1}, []byte{1, 1, 1, 1, 3, 3, 3, 1, 1, 1}, -1, -1, true)
	f.Fuzz(func(t *testing.T, data, sourceScript, baseScript []byte, limit, failAt int, known bool) {
		if len(data) > 1<<10 || len(sourceScript) > 1<<10 || len(baseScript) > 1<<10 {
			return // longer ones find no more
		}
		synctest.Test(t, func(t *testing.T) { // which finds what hangs, or is left
			if failAt < 0 || failAt > len(data) {
				failAt = -1
			}
			source := &fuzzSource{script: script{sourceScript}, data: data, failAt: failAt}
			base := &fuzzBase{t: t, data: data}
			for i := range base.scripts {
				base.scripts[i].rest = baseScript[len(baseScript)*i/4 : len(baseScript)*(i+1)/4]
			}
			tr := &transport{Base: base, MaxBodyBuffer: int64(limit), Backoff: delayed(0)}
			req := httpfake.Request(t, t.Context(), "POST", source)
			if known {
				req.ContentLength = int64(len(data))
			}
			start := time.Now()
			resp, err := tr.RoundTrip(req)
			if took := time.Since(start); took > 10*time.Second { // the scripts' moments are far shorter
				t.Errorf("RoundTrip took %v", took)
			}
			switch stop := stopOf(resp, err); {
			case base.sends == 3 && failAt >= 0:
				if !errors.Is(err, errFuzzSource) || !bytes.Equal(base.last, data[:failAt]) {
					t.Errorf("the last attempt sent %q, %v; RoundTrip's error is %v", base.last, base.err, err)
				}
			case base.sends == 3:
				if err != nil || resp.StatusCode != 200 || !bytes.Equal(base.last, data) {
					t.Errorf("the last attempt sent %q of %q; %v", base.last, data, err)
				}
			case stop == awsretry.StopPermanent && failAt >= 0: // the source's failure ended an attempt
			case stop != awsretry.StopBody:
				t.Errorf("gave up after %d attempts: %v, %v", base.sends, resp, err)
			default:
				kept := int64(limit)
				if limit == 0 {
					kept = 1 << 20
				}
				if failAt < 0 && int64(len(data)) <= kept {
					t.Errorf("no attempt %d, although %d bytes could be kept", base.sends+1, kept)
				}
			}
			time.Sleep(time.Minute)
			closes := source.closes.Load()
			if source.faults.Load() > 0 || closes > 1 || closes == 0 && (err != nil || base.sends == 3) {
				t.Errorf("%d reads at the same time or after Close; closed %d times; %v",
					source.faults.Load(), closes, err)
			}
		})
	})
}
