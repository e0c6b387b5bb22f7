package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// A walk is a kind of call.
type walk struct {
	name   string
	method string
	script []answer // of the service, for each call
	set    func(*awsretry.Transport)
}

// An answer of the service has a body that breaks off if its header says that it is
// longer.
type answer struct {
	status int
	header http.Header
	body   string
}

const text = "0123456789"

var (
	ok        = answer{status: http.StatusOK, body: text}
	throttled = answer{status: http.StatusBadRequest, body: `{"__type":"ThrottlingException"}`}
	etag      = []string{`"1"`}
)

var walks = []walk{
	{"GET, Observe and IdempotentOnly", http.MethodGet, []answer{ok}, func(t *awsretry.Transport) {
		t.Policy, t.Observe = awsretry.IdempotentOnly(awsretry.DefaultPolicy), func(awsretry.Attempt) {}
	}},
	{"POST, throttled twice, adaptive", http.MethodPost, []answer{throttled, throttled, ok}, func(t *awsretry.Transport) {
		t.Mode = awsretry.Adaptive
	}},
	{"GET, its body continued", http.MethodGet, []answer{
		{http.StatusOK, http.Header{"Etag": etag, "Content-Length": {"10"}}, text[:5]},
		{http.StatusPartialContent, http.Header{"Etag": etag, "Content-Range": {"bytes 5-9/10"}}, text[5:]},
	}, func(t *awsretry.Transport) { t.Resume = true }},
	{"GET, throttled, adaptive, in a fleet", http.MethodGet, []answer{throttled, ok}, func(t *awsretry.Transport) {
		shared, err := fleet.New(new(fleettest.Store), fleet.Config{Prefix: "walks"})
		if err != nil {
			panic(err)
		}
		t.Mode, t.Shared = awsretry.Adaptive, shared
	}},
}

// calls are the two calls of a walk. The first one makes the configuration and the
// partition, which the later one finds.
var calls = [...]string{"first", "later"}

// settled is how long the effects of a call take. A fleet renews its leases.
const settled = time.Second

// run makes the calls in virtual time, with begin before each and end after it.
func (w walk) run(begin func() error, end func(call string) error) (err error) {
	synctest.Test(new(testing.T), func(*testing.T) {
		base := &service{script: w.script}
		t := &awsretry.Transport{Base: base}
		w.set(t)
		if shared, ok := t.Shared.(io.Closer); ok {
			defer shared.Close()
		}
		for _, call := range calls {
			if err = begin(); err != nil {
				return
			}
			if err = w.call(t, base); err != nil {
				return
			}
			time.Sleep(settled)
			if err = end(call); err != nil {
				return
			}
		}
	})
	return err
}

func (w walk) call(t *awsretry.Transport, base *service) error {
	var body io.Reader
	if w.method == http.MethodPost {
		body = strings.NewReader(text)
	}
	req, err := http.NewRequest(w.method, "http://service.test/", body)
	if err != nil {
		return err
	}
	base.sent = 0
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if string(got) != text || base.sent != len(w.script) {
		return fmt.Errorf("walks: %s: %q after %d requests", w.name, got, base.sent)
	}
	return nil
}

// A service answers the requests of a call with its script.
type service struct {
	script []answer
	sent   int
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
	}
	if s.sent == len(s.script) {
		return nil, errors.New("walks: there are too many requests")
	}
	a := s.script[s.sent]
	s.sent++
	resp := &http.Response{
		StatusCode: a.status, Header: a.header.Clone(), ContentLength: int64(len(a.body)), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	var body io.Reader = strings.NewReader(a.body)
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	if resp.Header.Get("Content-Length") != "" {
		resp.ContentLength, body = int64(len(text)), io.MultiReader(body, broken{})
	}
	resp.Body = io.NopCloser(body)
	return resp, nil
}

// broken is a connection that broke.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// walkAll writes the coverage of each call into a folder.
func walkAll(dir string) error {
	for i, w := range walks {
		end := func(call string) error {
			to := folder(dir, i, call)
			return errors.Join(os.MkdirAll(to, 0o700), coverage.WriteMetaDir(to), coverage.WriteCountersDir(to))
		}
		if err := w.run(coverage.ClearCounters, end); err != nil {
			return err
		}
	}
	return nil
}

func folder(dir string, walk int, call string) string {
	return filepath.Join(dir, fmt.Sprintf("%d-%s", walk, call))
}
