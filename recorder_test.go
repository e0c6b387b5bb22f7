package awsretry

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// What was kept for a retry is let go of when there will be none.
func TestRecorderLetsGo(t *testing.T) {
	newRecorder := func() *recorder {
		r := &recorder{limit: 1 << 10}
		r.share(io.NopCloser(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 100)))))
		return r
	}
	read := func(c *recording, n int) {
		t.Helper()
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		do   func(*recorder, *recording)
		want int
	}{
		{"while a retry is possible", func(r *recorder, c *recording) { read(c, 50); c.Close() }, 50},
		{"stopped when all that is kept was read", func(r *recorder, c *recording) { read(c, 50); r.stop(c) }, 0},
		{"stopped before the attempt began", func(r *recorder, c *recording) { r.stop(nil); read(c, 50) }, 0},
		{"stopped, and read on", func(r *recorder, c *recording) { r.stop(c); read(c, 100) }, 0},
		{"the last attempt has read what was kept", func(r *recorder, c *recording) {
			read(c, 50)
			c.Close()
			r.stop(nil)
			last := r.open()
			read(last, 49)
			if len(r.kept) != 50 {
				t.Errorf("%d bytes are kept for the last attempt, want 50", len(r.kept))
			}
			read(last, 51)
		}, 0},
		{"the last attempt was closed early", func(r *recorder, c *recording) {
			read(c, 50)
			c.Close()
			last := r.open()
			read(last, 10)
			r.stop(last)
			last.Close()
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder()
			tt.do(r, r.open())
			if len(r.kept) != tt.want {
				t.Errorf("%d bytes are kept, want %d", len(r.kept), tt.want)
			}
		})
	}
}
