package laws_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/worlds"
)

// The law of a body that continues: what the caller reads is the beginning of what
// the first response would have brought if it had not broken off, so of one version
// of the object. EOF comes only after all of that. It always comes from a service
// that does as RFC 9110 says, and no Read hangs.
//
// No law can hold for a service that sends other bytes under the same strong ETag,
// the same position and the same length. These do not.

func TestLawOfResume(t *testing.T) {
	worlds.Each(t, 1500, lawOfResume)
}

// A version is an object as it is for a time.
type version struct {
	data string
	etag string
}

// A reply is what the service sends to one request.
type reply struct {
	status int
	header http.Header
	body   string
	full   string // what the body is without a break, if the reply is the first
	length bool   // Content-Length is announced
	breaks int    // the body breaks off after that many bytes; -1: it does not
	stalls bool   // instead of breaking off
	lie    string
}

func (r *reply) String() string {
	return fmt.Sprintf("%d %q, %d bytes, Content-Range %q, ETag %q, coding %q, announced %v, breaks at %d, stalls %v",
		r.status, r.lie, len(r.body), r.header.Get("Content-Range"), r.header.Get("Etag"),
		r.header.Get("Content-Encoding"), r.length, r.breaks, r.stalls)
}

func (r *reply) send(w http.ResponseWriter, req *http.Request) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	if r.length {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	} else {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(r.status)
	if r.breaks < 0 {
		if !r.length {
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, r.body)
		return
	}
	w.(http.Flusher).Flush()
	io.WriteString(w, r.body[:r.breaks])
	w.(http.Flusher).Flush()
	if r.stalls {
		<-req.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// A store is the service. Its object changes, and its replies lie and break off.
type store struct {
	r        *rand.Rand
	versions []version
	changes  int     // the number of the request from which on the next version is there; 0: never
	lies     float64 // the share of replies that lie
	breaks   float64 // the share that breaks off
	coding   string  // "", "stored", or "on the fly"
	length   bool    // Content-Lengths are announced
	noAccept bool    // Accept-Ranges: none
	stalls   bool    // a break may be a stall
	known    bool    // the first reply had the length of its body, or of the object
	seen     []*reply
	asked    []string
}

// honest is what RFC 9110 wants, by net/http.
func (s *store) honest(v version, req *http.Request) *reply {
	header := http.Header{}
	header.Set("Etag", v.etag)
	header.Set("Content-Type", "application/octet-stream")
	data := v.data
	if s.coding != "" && strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
		level := 5
		if s.coding == "on the fly" {
			level = 2 + s.r.IntN(7) // beyond these the gzip header is another one
		} else {
			header.Set("Etag", strings.TrimSuffix(v.etag, `"`)+`-gzip"`)
		}
		header.Set("Content-Encoding", "gzip")
		data = zipped(data, level)
	}
	rec := httptest.NewRecorder()
	for name, values := range header {
		rec.Header()[name] = values
	}
	http.ServeContent(rec, req, "", time.Time{}, strings.NewReader(data))
	rec.Header().Del("Content-Length")
	if s.noAccept {
		rec.Header().Set("Accept-Ranges", "none")
	}
	body := rec.Body.String()
	return &reply{status: rec.Code, header: rec.Header(), body: body, full: body, length: s.length, breaks: -1}
}

func zipped(data string, level int) string {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		panic(err)
	}
	io.WriteString(w, data)
	w.Close()
	return b.String()
}

// next returns the reply to a request. first reports that the caller has no response
// yet.
func (s *store) next(req *http.Request, first bool) *reply {
	n := len(s.seen) + 1
	v := s.versions[0]
	if s.changes > 0 && n >= s.changes {
		v = s.versions[1]
	}
	p := s.honest(v, req)
	if worlds.Chance(s.r, s.lies) && (!first || worlds.Chance(s.r, .3)) { // or else few bodies are continued
		s.lie(p, v, req, first)
	}
	if p.length && p.status == 200 || p.header.Get("Content-Range") != "" {
		s.known = s.known || first
	}
	if p.breaks < 0 && len(p.body) > 0 && worlds.Chance(s.r, s.breaks) {
		p.breaks = s.r.IntN(len(p.body))
		if worlds.Chance(s.r, .3) {
			p.breaks = min(p.breaks, s.r.IntN(40))
		}
		p.stalls = s.stalls && worlds.Chance(s.r, .3)
	}
	s.seen = append(s.seen, p)
	s.asked = append(s.asked, fmt.Sprintf("%q if %q", req.Header.Get("Range"), req.Header.Get("If-Range")))
	return p
}

// lie makes p a lie, if it can.
func (s *store) lie(p *reply, v version, req *http.Request, first bool) {
	r := s.r
	p.lie = worlds.Pick(r, "no range", "no If-Range", "no ETag", "weak ETag", "other ETag", "two ETags", "bare ETag",
		"shifted", "shifted header", "shorter", "longer", "ends early", "goes on", "other total", "no total",
		"416", "412", "status", "reset", "other length", "200 of another length", "200 of a part", "multipart", "label",
		"no Content-Range", "other type", "other coding", "one byte")
	if p.status == 206 && worlds.Chance(r, .6) {
		p.lie = worlds.Pick(r, "shifted", "shorter", "longer", "ends early", "goes on", "other total", "no range, another length")
	}
	var from, to, total int
	part := p.status == 206
	if part {
		_, err := fmt.Sscanf(p.header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total)
		part = err == nil
	}
	object := p.body // as it is in the coding of p
	if part {
		all := req.Clone(req.Context())
		all.Header.Del("Range")
		object = s.honest(v, all).body
		if len(object) != total { // compressed anew
			part = false
		}
	}
	setPart := func(from, to, total int) {
		p.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, total))
	}
	again := func(change func(http.Header)) {
		other := req.Clone(req.Context())
		change(other.Header)
		lie := p.lie
		*p = *s.honest(v, other)
		p.lie = lie
	}
	switch p.lie {
	case "no range":
		again(func(h http.Header) { h.Del("Range") })
	case "no range, another length":
		if s.known && !first {
			again(func(h http.Header) { h.Del("Range") })
			p.body = worlds.Pick(r, p.body[:(len(p.body)+1)/2], p.body+"and so on")
		}
	case "no If-Range":
		again(func(h http.Header) { h.Del("If-Range") })
	case "no ETag":
		p.header.Del("Etag")
	case "weak ETag":
		p.header.Set("Etag", "W/"+p.header.Get("Etag"))
	case "other ETag":
		p.header.Set("Etag", `"other"`)
	case "two ETags":
		p.header.Add("Etag", `"other"`)
	case "bare ETag":
		p.header.Set("Etag", strings.Trim(p.header.Get("Etag"), `"`))
	case "416", "412", "status":
		p.status, p.body = worlds.Pick(r, 403, 404, 500, 503, 204, 304, 207), ""
		if p.lie != "status" {
			p.status, _ = strconv.Atoi(p.lie)
		}
		p.header.Del("Content-Range")
		p.header.Del("Content-Encoding")
		if p.status == 416 && worlds.Chance(r, .7) {
			p.header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(v.data)+r.IntN(2)))
			if s.coding != "" {
				p.header.Del("Content-Range")
			}
		}
		if p.status != 204 && p.status != 304 {
			p.body = "an error of the service"
		}
		p.full = p.body
	case "reset":
		p.breaks = 0
		p.status = 0
	case "no total":
		if part {
			p.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", from, to))
		}
	case "no Content-Range":
		p.header.Del("Content-Range")
	case "other type":
		p.header.Set("Content-Type", "text/plain")
	case "label":
		p.header.Set("Content-Type", "multipart/byteranges; boundary=x")
	case "other coding":
		if !first {
			p.header.Set("Content-Encoding", worlds.Pick(r, "br", "x-gzip"))
			if worlds.Chance(r, .5) {
				p.body = zipped(p.body, 1)
			}
		}
	case "multipart":
		if req.Header.Get("Range") != "" {
			again(func(h http.Header) { h.Set("Range", h.Get("Range")+",0-0") })
		}
	case "shifted":
		if part && to > from {
			setPart(from+1, to, total)
			p.body = object[from+1 : to+1]
			p.full = p.body
		}
	case "shifted header":
		if part && from > 0 {
			setPart(from-1, to-1, total)
		}
	case "shorter":
		if part && to > from {
			to = from + r.IntN(to-from)
			setPart(from, to, total)
			p.body = object[from : to+1]
			p.full = p.body
		}
	case "longer":
		if part && to+1 < total {
			to += 1 + r.IntN(total-to-1)
			setPart(from, to, total)
			p.body = object[from : to+1]
			p.full = p.body
		}
	case "one byte":
		if part {
			setPart(from, from, total)
			p.body = object[from : from+1]
			p.full = p.body
		}
	case "ends early":
		if part && !first {
			p.length, p.body = false, p.body[:r.IntN(len(p.body))]
		}
	case "goes on":
		if part && !first {
			p.length, p.body = false, p.body+"and so on"
		}
	case "other length":
		if part && len(p.body) > 1 && !first {
			p.length, p.body = true, p.body[:len(p.body)-1]
		}
	case "other total":
		if part && s.known && !first {
			setPart(from, to, max(total-1+2*r.IntN(2), to+1))
		}
	case "200 of another length":
		if p.status == 200 && s.known && !first {
			p.body = worlds.Pick(r, p.body[:len(p.body)/2], p.body+"and so on")
		}
	case "200 of a part":
		if part && !first {
			p.status = 200
			p.header.Del("Content-Range")
		}
	}
}

func lawOfResume(t *testing.T, r *rand.Rand) {
	protocol := worlds.Pick(r, "HTTP/1.1", "HTTP/1.1", "h2c")
	size := worlds.Pick(r, 1, 2, 15, 16, 17, 18, 33, 200, 5_000, 16<<10, 40_000, 100_000)
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcdefgh"[r.IntN(8)]
		}
		return string(b)
	}
	s := &store{
		r: r, versions: []version{{letters(size), `"v1"`}},
		lies: worlds.Pick(r, 0, .2, .6), breaks: worlds.Pick(r, .3, .7, .9),
		coding: worlds.Pick(r, "", "", "", "stored", "on the fly"),
		length: worlds.Chance(r, .6), noAccept: worlds.Chance(r, .03),
	}
	next := version{letters(size), `"v2"`}
	switch r.IntN(3) {
	case 0:
		next.data = s.versions[0].data[:size/2] + letters(size-size/2)
	case 1:
		next.data = letters(1 + r.IntN(2*size))
	}
	s.versions = append(s.versions, next)
	if worlds.Chance(r, .3) {
		s.changes = 2 + r.IntN(3)
	}
	if weak := worlds.Chance(r, .05); weak {
		s.versions[0].etag = `W/"v1"`
		s.versions[1].etag = worlds.Pick(r, `W/"v1"`, `"v2"`) // a weak one may stay
	}

	var open atomic.Int64
	begun := false // the caller has a response
	srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, req *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		p := s.next(req, !begun)
		if p.status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Reply", strconv.Itoa(len(s.seen)))
		p.send(w, req)
	})
	tr := &awsretry.Transport{
		Base: srv.Base, Resume: true, MaxAttempts: 2 + r.IntN(3), Backoff: delayed(worlds.Pick(r, 0, time.Second)),
		StallTimeout: worlds.Pick(r, 0, 5*time.Second), AttemptTimeout: worlds.Pick(r, 0, 0, time.Minute),
		Mode: worlds.Pick(r, awsretry.Standard, awsretry.Standard, awsretry.Adaptive, awsretry.Legacy),
	}
	s.stalls = tr.StallTimeout > 0 || tr.AttemptTimeout > 0
	tr.Quota.Capacity = worlds.Pick(r, -1, -1, 0, 20)
	if worlds.Chance(r, .2) {
		tr.Base = httpfake.Base(srv.Base.RoundTrip)
	}
	if worlds.Chance(r, .2) {
		tr.Policy = awsretry.IdempotentOnly(nil)
	}
	if worlds.Chance(r, .2) {
		tr.Prepare = func(req *http.Request, _ int) error { req.Header.Set("X-Signed", "yes"); return nil }
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hung := time.AfterFunc(10*time.Hour, cancel) // a finding, not a deadlock
	req := srv.Request(t, "GET", nil).WithContext(ctx)
	if a, b := r.IntN(size), r.IntN(size); worlds.Chance(r, .4) {
		req.Header.Set("Range", worlds.Pick(r, fmt.Sprintf("bytes=%d-", a), fmt.Sprintf("bytes=%d-%d", min(a, b), max(a, b)),
			fmt.Sprintf("bytes=%d-%d", a, 2*size), fmt.Sprintf("bytes=-%d", 1+b), fmt.Sprintf("bytes=0-%d,%d-", a/2, a),
			fmt.Sprintf("bytes=%d-%d,-1", min(a, b), max(a, b)), "bytes=5-2", fmt.Sprintf("bytes=%d-", size)))
		if worlds.Chance(r, .2) {
			req.Header.Set("If-Range", worlds.Pick(r, `"v1"`, `"v2"`))
		}
	}
	if worlds.Chance(r, .1) {
		req.Header.Set(worlds.Pick(r, "If-Match", "If-None-Match"), worlds.Pick(r, `"v1"`, `"v2"`, "*"))
	}
	if worlds.Chance(r, .6) {
		req.Header.Set("Accept-Encoding", worlds.Pick(r, "gzip", "identity"))
	}
	stop := -1 // the caller closes the body after so many bytes
	if worlds.Chance(r, .1) {
		stop = r.IntN(size)
	}
	buffer := worlds.Pick(r, 1, 7, 512, 32<<10)
	if size > 5_000 {
		buffer = max(buffer, 512)
	}

	var got []byte
	var ended error
	describe := func() string {
		lines := fmt.Sprintf("%s, %d bytes, range %q, If-Range %q, Accept-Encoding %q, %s %d attempts, Quota %d, coding %q, changes at %d\nread %d bytes, %v\n",
			protocol, size, req.Header.Get("Range"), req.Header.Get("If-Range"), req.Header.Get("Accept-Encoding"), tr.Mode,
			tr.MaxAttempts, tr.Quota.Capacity, s.coding, s.changes, len(got), ended)
		for i, p := range s.seen {
			lines += fmt.Sprintf("  %s: %v\n", s.asked[i], p)
		}
		return lines
	}
	resp, err := tr.RoundTrip(req)
	begun = true
	if err != nil {
		if !hung.Stop() {
			t.Errorf("RoundTrip hung\n%s", describe())
		}
		tr.CloseIdleConnections()
		return
	}
	number, _ := strconv.Atoi(resp.Header.Get("X-Reply"))
	first := s.seen[number-1]
	want := first.full
	if resp.Uncompressed && want != "" {
		zip, err := gzip.NewReader(strings.NewReader(want))
		if err != nil {
			t.Fatalf("%v\n%s", err, describe())
		}
		plain, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		want = string(plain)
	}
	buf := make([]byte, buffer)
	for ended == nil && (stop < 0 || len(got) < stop) {
		var n int
		n, ended = resp.Body.Read(buf)
		if last := s.seen[len(s.seen)-1]; n > 0 && len(got) == 0 && last != first && s.coding == "on the fly" &&
			first.status == 200 && last.status == 200 && last.header.Get("Etag") == first.header.Get("Etag") {
			want = last.full // it is the first that has brought a byte
		}
		got = append(got, buf[:n]...)
		if !bytes.HasPrefix([]byte(want), got) {
			t.Errorf("read %d bytes that are not the beginning of the first response's %d\n%s", len(got), len(want), describe())
			break
		}
	}
	if ended == io.EOF && len(got) != len(want) {
		t.Errorf("EOF after %d of %d bytes\n%s", len(got), len(want), describe())
	}
	if ended != nil {
		if n, again := resp.Body.Read(buf); n > 0 || again == nil || (again == io.EOF) != (ended == io.EOF) {
			t.Errorf("Read after the end: %d, %v\n%s", n, again, describe())
		}
	}
	resp.Body.Close()
	if !hung.Stop() {
		t.Errorf("a Read hung\n%s", describe())
	}
	time.Sleep(300 * time.Millisecond)
	if n := open.Load(); n > 0 {
		t.Errorf("%d exchanges continue after Close\n%s", n, describe())
	}
	tr.CloseIdleConnections()

	// A body of an honest service that never stops to bring bytes comes to its end.
	able := s.lies == 0 && !s.noAccept && s.changes == 0 && tr.Quota.Capacity == -1 && s.versions[0].etag == `"v1"` &&
		s.coding == "" && (first.status == 200 || first.status == 206 && !strings.Contains(req.Header.Get("Range"), ","))
	empty := 0 // replies in a row without a byte
	for _, p := range s.seen {
		if empty++; p.breaks != 0 {
			empty = 0
		}
		able = able && empty < tr.MaxAttempts-1
	}
	if able && stop < 0 && ended != io.EOF {
		t.Errorf("it could have been continued\n%s", describe())
	}
	if ended != io.EOF && ended != nil && !errors.As(ended, new(*awsretry.Error)) && able {
		t.Errorf("the error is %v\n%s", ended, describe())
	}
}
