package replay

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// What a Memory opens does not depend on how far the reader was read since, nor
// on another one that it opened.
func TestMemory(t *testing.T) {
	const data = "0123456789"
	buffer, data1, text := bytes.NewBufferString(data), bytes.NewReader([]byte(data)), strings.NewReader(data)
	for _, r := range []io.Reader{buffer, data1, text, bytes.NewReader(nil)} {
		io.CopyN(io.Discard, r, 4)
		want := data[4:]
		if r.(interface{ Len() int }).Len() == 0 {
			want = ""
		}
		var m, bare Memory
		if !InMemory(r) || m.known() || !bare.Remember(r) || !m.Remember(io.NopCloser(r)) || !m.known() {
			t.Fatalf("%T is not taken as in memory", r)
		}
		io.CopyN(io.Discard, r, 3)
		first, _ := m.reopen()
		io.CopyN(io.Discard, first, 2)
		io.Copy(io.Discard, r)
		for _, again := range []io.Reader{m.open(), m.open(), bare.open()} {
			wantRest(t, again, want)
		}
	}
	for _, body := range []io.Reader{
		nil, http.NoBody, struct{ io.Reader }{text}, iotest.HalfReader(text), io.NopCloser(io.LimitReader(text, 1)),
	} {
		if m := (Memory{}); m.Remember(body) || m.known() {
			t.Errorf("%T is taken as in memory", body)
		}
	}
}
