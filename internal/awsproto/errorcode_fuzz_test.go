package awsproto

import (
	"bytes"
	"cmp"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// checkCut fails if the first n bytes of a body have another code than the whole
// body. The exception is a member code of a JSON object, over which a member __type
// after the cut takes precedence. So these two are compared separately.
func checkCut(t *testing.T, h http.Header, body []byte, n int) {
	t.Helper()
	cut, whole := BodyCode(h, body[:n]), BodyCode(h, body)
	if cut == "" || cut == whole {
		return
	}
	start := bytes.IndexByte(body, '{')
	if start < 0 || start >= n || len(bytes.TrimLeft(bytes.TrimPrefix(body[:start], []byte("\ufeff")), " \t\r\n")) > 0 {
		t.Fatalf("cut at %d of %d gives %q, the whole body %q", n, len(body), cut, whole)
	}
	cutType, cutCode := jsonCodes(body[start:n])
	wholeType, wholeCode := jsonCodes(body[start:])
	if cutType != "" || cutCode != wholeCode || wholeType == "" {
		t.Fatalf("cut at %d of %d gives __type %q and code %q, the whole body %q and %q",
			n, len(body), cutType, cutCode, wholeType, wholeCode)
	}
}

// withCode returns a body with the code for each protocol. The code has less than
// 64 KiB.
var withCode = map[string]struct {
	header http.Header
	body   func(code string) string
}{
	"JSON": {jsonHeader, func(c string) string { return `{"__type":"` + c + `"}` }},
	"XML":  {xmlHeader, func(c string) string { return "<Error><Code>" + c + "</Code></Error>" }},
	"SOAP": {xmlHeader, func(c string) string {
		return "<Envelope><Body><Fault><faultcode>" + c + "</faultcode></Fault></Body></Envelope>"
	}},
	"CBOR": {cborHeader, func(c string) string { // a text with a two-byte length
		return "\xa1\x66__type\x79" + string([]byte{byte(len(c) >> 8), byte(len(c))}) + c
	}},
}

func TestBodyCodeLength(t *testing.T) {
	longest := strings.Repeat("x", 256)
	for protocol, tt := range withCode {
		for code, want := range map[string]string{longest: longest, longest + "x": "", "": ""} {
			if got := BodyCode(tt.header, []byte(tt.body(code))); got != want {
				t.Errorf("%s, %d bytes: %q", protocol, len(code), got)
			}
		}
	}
}

// Each of these bodies of 64 KiB is designed to be costly, and takes milliseconds.
// The limit is far above that, and far below the time of quadratic work.
func TestBodyCodeHostile(t *testing.T) {
	fill := func(head, unit, tail string) []byte {
		return []byte(head + strings.Repeat(unit, (MaxErrorBody-len(head)-len(tail))/len(unit)) + tail)
	}
	const n = MaxErrorBody / 16
	for _, tt := range []struct {
		name   string
		header http.Header
		body   []byte
		want   string
	}{
		{"JSON arrays never closed", jsonHeader, fill(`{"a":`, "[", ""), ""},
		{"JSON deep, code behind", jsonHeader,
			[]byte(`{"a":` + strings.Repeat("[", 2*n) + strings.Repeat("]", 2*n) + `,"code":"SlowDown"}`), "SlowDown"},
		{"JSON many members", jsonHeader, fill("{", `"a":1,`, `"code":"SlowDown"}`), "SlowDown"},
		{"XML deep, code behind", xmlHeader,
			[]byte("<Error>" + strings.Repeat("<a>", n) + strings.Repeat("</a>", n) + "<Code>SlowDown</Code></Error>"),
			"SlowDown"},
		{"XML many empty codes", xmlHeader, fill("<Error>", "<Code/>", "<Code>SlowDown</Code></Error>"), "SlowDown"},
		{"XML comments in a code", xmlHeader, fill("<Error><Code>Slow", "<!---->", "Down</Code></Error>"), "SlowDown"},
		{"CBOR as deep as is read", cborHeader,
			[]byte("\xbf\x61a" + strings.Repeat("\x81", 32) + "\x01\x66__type\x68SlowDown"), "SlowDown"},
		{"CBOR deeper than is read", cborHeader,
			[]byte("\xbf\x61a" + strings.Repeat("\x81", 33) + "\x01\x66__type\x68SlowDown"), ""},
		{"CBOR many pairs", cborHeader, fill("\xbf", "\x61a\x01", "\x66__type\x68SlowDown"), "SlowDown"},
		{"CBOR text in pieces", cborHeader, fill("\xbf\x61a\x7f", "\x60", "\xff\x66__type\x68SlowDown"), "SlowDown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.body) > MaxErrorBody {
				t.Fatalf("the body has %d bytes", len(tt.body))
			}
			start := time.Now()
			if got := BodyCode(tt.header, tt.body); got != tt.want {
				t.Errorf("BodyCode = %q, want %q", got, tt.want)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// A code that is kept, such as in the record of an attempt, does not keep its
// body in memory.
func TestBodyCodePinsNothing(t *testing.T) {
	long := strings.Repeat(" ", MaxErrorBody-512)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for protocol, tt := range withCode {
		code := map[string]string{"XML": "Foo" + long, "SOAP": long + "a:Foo"}[protocol]
		body := []byte(tt.body(cmp.Or(code, "Foo:"+long)))
		kept := make([]string, 32)
		before := inUse()
		for i := range kept {
			if kept[i] = BodyCode(tt.header, body); kept[i] != "Foo" {
				t.Fatalf("%s: %q, want Foo", protocol, kept[i])
			}
		}
		if grown, limit := inUse()-before, int64(len(kept)*MaxErrorBody/4); grown > limit {
			t.Errorf("%s: %d codes keep %d bytes in memory, want at most %d", protocol, len(kept), grown, limit)
		}
		runtime.KeepAlive(kept)
	}
}

// FuzzErrorCode checks for any input that a code is short, printable and
// trimmed, and that a body that is cut off has no code of its own.
func FuzzErrorCode(f *testing.F) {
	for _, tt := range errorBodies {
		body := readErrorBody(f, tt.file)
		f.Add("ns#Foo:http://x", "RequestThrottled;Sender", body, filepath.Ext(tt.file) == ".hex", uint(len(body)/2))
	}
	f.Fuzz(func(t *testing.T, errorType, queryError string, body []byte, asCBOR bool, n uint) {
		check := func(where, code, forbidden string) {
			t.Helper()
			if len(code) > maxCodeLen || code != strings.TrimSpace(code) || strings.ContainsAny(code, forbidden) ||
				strings.ContainsFunc(code, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%s: code %q", where, code)
			}
		}
		check("headers",
			HeaderCode(http.Header{errorTypeHeader: {errorType}, queryErrorHeader: {queryError}}), ":#,;\n")

		if len(body) > MaxErrorBody {
			body = body[:MaxErrorBody]
		}
		h := http.Header{"Content-Type": {errorType}}
		MayHoldCode(h)
		if asCBOR {
			h = cborHeader
		}
		forbidden := ":#"
		if bytes.Contains(body, []byte("<")) {
			forbidden = "" // a code of S3 or of the query protocol is returned unchanged
		}
		check("body", BodyCode(h, body), forbidden)
		checkCut(t, h, body, int(n%uint(len(body)+1)))
	})
}
