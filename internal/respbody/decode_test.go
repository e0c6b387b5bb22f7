package respbody

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

var codings = []string{"gzip", "deflate", "raw"}

// encoded returns a response with a body in a coding of httpfake.Compressed.
func encoded(coding string, body io.Reader) *http.Response {
	return &http.Response{
		Body: io.NopCloser(body), ContentLength: -1,
		Header: http.Header{"Content-Encoding": {httpfake.ContentEncoding(coding)}},
	}
}

func compressed(coding, text string) string { return httpfake.Compressed(coding, text)[0] }

// unflushed returns text compressed by a server that does not flush what it has
// written.
func unflushed(coding, text string) string {
	var out strings.Builder
	var zip io.WriteCloser
	switch coding {
	case "gzip":
		zip = gzip.NewWriter(&out)
	case "deflate":
		zip = zlib.NewWriter(&out)
	default:
		zip, _ = flate.NewWriter(&out, flate.DefaultCompression)
	}
	io.WriteString(zip, text)
	zip.Close()
	return out.String()
}

// noise is a text of n bytes that does not compress well.
func noise(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = "abcdefgh"[rand.N(8)]
	}
	return string(text)
}

func TestReadable(t *testing.T) {
	for want, values := range map[coding][][]string{
		identity: {nil, {""}, {"identity, Identity"}, {"", "identity"}},
		zipped:   {{"gzip"}, {" GZip "}, {"x-gzip"}, {"identity", "gzip"}},
		deflated: {{"deflate"}, {"identity,deflate"}},
		unknown:  {{"br"}, {"gzip, gzip"}, {"gzip", "deflate"}, {"zstd"}, {"compress"}, {"unknown"}},
	} {
		for _, value := range values {
			h := http.Header{"Content-Encoding": value}
			if got := codingOf(h); got != want || Readable(h) != (want != unknown) {
				t.Errorf("%q: %q, want %q", value, got, want)
			}
		}
	}
}

// The decoded data is the same however the body arrives, and each part is decoded
// as it arrives. The caller gets the body unchanged.
func TestDecoding(t *testing.T) {
	parts := []string{"first ", strings.Repeat("second ", 1000), "", noise(70_000)}
	text := strings.Join(parts, "")
	for _, c := range codings {
		pieces := httpfake.Compressed(c, parts...)
		body := strings.Join(pieces, "")
		for cut, reader := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "with the end": iotest.DataErrReader,
			"in pieces": iotest.OneByteReader, "in halves": iotest.HalfReader,
		} {
			for _, limit := range []int{10, 1000, 1 << 20} {
				var seen []byte
				resp := encoded(c, httpfake.ReadFunc(reader(strings.NewReader(body)).Read))
				shown, ahead := Read(resp, limit, func(b []byte) bool {
					if !strings.HasPrefix(string(b), string(seen)) {
						t.Fatalf("%s, %s: %.20q after %.20q", c, cut, b, seen)
					}
					seen = append(seen[:0], b...)
					return false
				}, nil)
				ahead.WaitDone(t.Context())
				plain := string(ahead.Plain(limit))
				if !strings.HasPrefix(text, plain) || len(plain) < len(seen) || len(seen) > limit {
					t.Errorf("%s, %s, limit %d: %d bytes, of which %d came", c, cut, limit, len(plain), len(seen))
				}
				if limit > len(text) && (plain != text || string(seen) != text) {
					t.Errorf("%s, %s: decoded %d, in parts %d bytes of %d", c, cut, len(plain), len(seen), len(text))
				}
				if got := httpfake.ReadAll(t, shown); got != body {
					t.Errorf("%s, %s: the body is changed", c, cut)
				}
			}
		}
		// Each part is decoded when it has arrived, and reading ends with enough.
		for n := range pieces {
			body := httpfake.ReadFunc(io.MultiReader(strings.NewReader(strings.Join(pieces[:n+1], "")),
				httpfake.ReadFunc(func([]byte) (int, error) { t.Error("read too far"); return 0, io.EOF })).Read)
			want := strings.Join(parts[:n+1], "")
			_, ahead := Read(encoded(c, body), 1<<20, func(b []byte) bool { return string(b) == want }, nil)
			ahead.WaitDone(t.Context())
		}
	}
}

// Data that was not flushed is decoded when it has arrived, although the body stays
// open.
func TestDecodingOfAnOpenBody(t *testing.T) {
	text := noise(5000)
	for _, c := range codings {
		body := unflushed(c, text)
		if c == "gzip" {
			body = unflushed(c, text[:2000]) + unflushed(c, "") + unflushed(c, text[2000:])
		}
		source := httpfake.ReadFunc(io.MultiReader(strings.NewReader(body),
			httpfake.ReadFunc(func([]byte) (int, error) { t.Errorf("%s: read too far", c); return 0, io.EOF })).Read)
		_, ahead := Read(encoded(c, source), 1<<20, func(b []byte) bool { return string(b) == text }, nil)
		ahead.WaitDone(t.Context())
		if plain := string(ahead.Plain(1 << 20)); plain != text {
			t.Errorf("%s: decoded %d of %d bytes", c, len(plain), len(text))
		}
	}
}

// Data that is cut off or broken is decoded up to that point, and hostile data
// takes little time and memory.
func TestDecodingOfBadData(t *testing.T) {
	const limit = 64 << 10
	for _, c := range codings {
		text := noise(20_000)
		body := compressed(c, text)
		bodies := map[string]string{
			"nothing": "", "text": text, "a header": body[:1], "bomb": compressed(c, strings.Repeat("0", 4<<20)),
			"empty members": strings.Repeat(unflushed(c, ""), 5000),
			"empty parts":   strings.Repeat(compressed(c, ""), 5000),
			"empty flushes": strings.Join(httpfake.Compressed(c, make([]string, 20_000)...), ""),
		}
		for n := range 20 {
			at := len(body) * n / 20
			bodies[fmt.Sprint("cut at ", at)] = body[:at]
			bodies[fmt.Sprint("broken at ", at)] = body[:at] + "\xff\x00\xff" + body[min(at+3, len(body)):]
		}
		for name, body := range bodies {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			shown, ahead := Read(encoded(c, httpfake.ReadFunc(strings.NewReader(body).Read)), limit,
				func(b []byte) bool { return len(b) > limit }, nil)
			ahead.WaitDone(t.Context())
			plain := string(ahead.Plain(limit))
			runtime.ReadMemStats(&after)
			if took := time.Since(start); took > 20*time.Second || len(plain) > limit || after.TotalAlloc-before.TotalAlloc > 16<<20 {
				t.Errorf("%s, %s: %v for %d bytes, %d allocated", c, name, took, len(plain), after.TotalAlloc-before.TotalAlloc)
			}
			if strings.HasPrefix(name, "cut") && !strings.HasPrefix(text, plain) {
				t.Errorf("%s, %s: decoded %d bytes that were not sent", c, name, len(plain))
			}
			if got := httpfake.ReadAll(t, shown); got != body {
				t.Errorf("%s, %s: the body is changed", c, name)
			}
		}
		if cut := (&Ahead{shown: encoded(c, nil), buf: []byte(body[:len(body)/2])}).Plain(limit); len(cut) < 1000 {
			t.Errorf("%s: half of a body has only %d bytes", c, len(cut))
		}
	}
}

// A body that arrives byte by byte is decoded once, not again with each byte.
func TestDecodingIsLinear(t *testing.T) {
	const limit = 256 << 10
	text := noise(limit)
	for _, c := range codings {
		start, looks := time.Now(), 0
		body := iotest.OneByteReader(strings.NewReader(compressed(c, text)))
		_, ahead := Read(encoded(c, body), limit, func([]byte) bool { looks++; return false }, nil)
		ahead.WaitDone(t.Context())
		if plain := ahead.Plain(limit); string(plain) != text || looks == 0 || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %d bytes in %v", c, len(plain), time.Since(start))
		}
	}
}

// FuzzDecoding checks for any bytes that the caller gets them unchanged, and that
// no more is decoded than requested, however they arrive.
func FuzzDecoding(f *testing.F) {
	for i, c := range codings {
		f.Add(compressed(c, "text"), i, 3)
	}
	f.Fuzz(func(t *testing.T, body string, coding, limit int) {
		limit = max(limit%1000, 1)
		c := codings[uint(coding)%uint(len(codings))]
		most := 0
		source := httpfake.ReadFunc(iotest.OneByteReader(strings.NewReader(body)).Read)
		shown, ahead := Read(encoded(c, source), limit, func(b []byte) bool { most = max(most, len(b)); return false }, nil)
		ahead.WaitDone(t.Context())
		if plain := ahead.Plain(limit); most > limit || len(plain) > limit || ahead.Err() != nil {
			t.Errorf("%d and %d bytes are decoded, %v", most, len(plain), ahead.Err())
		}
		if got := httpfake.ReadAll(t, shown); got != body {
			t.Errorf("read %q, want %q", got, body)
		}
	})
}
