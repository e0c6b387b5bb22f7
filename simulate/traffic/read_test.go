package traffic

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"example.com/awsretry/simulate/scenario"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// line returns a line of LogTo, a number of milliseconds after the log began.
func line(ms int, attributes string) string {
	at := began.Add(time.Duration(ms) * time.Millisecond)
	return fmt.Sprintf(`{"time":%q,"level":"DEBUG","msg":"x","method":"GET","url":"http://a.test:80/x",%s}`+"\n",
		at.Format(time.RFC3339Nano), attributes)
}

const (
	success  = `"attempt":1,"class":"success","status":200,"elapsed_ms":1.5,"stop":"success"`
	refused  = `"attempt":0,"class":"throttled","error":"send rate limited","stop":"rate_limit"`
	retrying = `"attempt":1,"class":"throttled","status":429,"elapsed_ms":1.5,"delay_ms":5`
)

func read(t testing.TB, text string, o Options) (*Log, error) {
	t.Helper()
	return Read(t.Context(), strings.NewReader(text), o)
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Lines that are not LogTo's are skipped and counted.
func TestLines(t *testing.T) {
	ok := line(0, success)
	with := func(from, to string) string { return strings.Replace(ok, from, to, 1) }
	many := strings.Repeat(ok, 200)
	days := func(n int) string { return strings.Repeat(line(n*24*3600*1000, success), 150) }
	compressed := zipped(t, strings.Repeat(ok, 1000))
	for _, tt := range []struct {
		name, text string
		want       Lines
	}{
		{"LogTo's", ok, Lines{Used: 1}},
		{"with Windows' ends", strings.ReplaceAll(ok, "\n", "\r\n") + ok, Lines{Used: 2}},
		{"other programs'", "starting\n" + ok + `{"level":"INFO"}` + "\n", Lines{Used: 1, Others: 2}},
		{"cut at the end", ok + ok[:len(ok)-30], Lines{Used: 1, Unreadable: 1}},
		{"refused calls", ok + line(1, refused), Lines{Used: 2}},
		{"a refused call that goes on", ok + line(1, strings.Replace(refused, `"stop":"rate_limit"`, `"delay_ms":1`, 1)),
			Lines{Used: 1, Unreadable: 1}},
		{"huge numbers", ok + with("1.5", "1e300") + with("1.5", "1e999") + with(`"attempt":1`, `"attempt":1e18`) +
			with(`"status":200`, `"status":99999999999999999999`), Lines{Used: 1, Unreadable: 4}},
		{"negative numbers", ok + with("1.5", "-1") + with(`"attempt":1`, `"attempt":-1`), Lines{Used: 1, Unreadable: 2}},
		{"another class", ok + with(`"success"`, `"splendid"`), Lines{Used: 1, Unreadable: 1}},
		{"without a time", ok + with(`"time"`, `"when"`), Lines{Used: 1, Unreadable: 1}},
		{"impossible times", ok + with("2026", "9999") + with("2026", "0001"), Lines{Used: 1, Unreadable: 2}},
		{"times far away", ok + with("2026", "2025") + with("2026", "2027") + ok, Lines{Used: 2, Astray: 2}},
		{"after a rest", many + days(3), Lines{Used: 251, Astray: 99}},
		{"after too long a rest", many + days(60), Lines{Used: 200, Astray: 150}},
		{"a clock that is wrong at first", with("2026", "2021") + many, Lines{Used: 101, Astray: 100}},
		{"a long line", strings.Repeat("x", 70<<10) + "\n" + ok, Lines{Used: 1, TooLong: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := read(t, tt.text, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, l.Lines, cmpopts.IgnoreUnexported(Lines{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("gzip that is cut", func(t *testing.T) {
		l, err := read(t, compressed[:len(compressed)-6], Options{})
		if err != nil || !l.Lines.Cut || l.Lines.Used == 0 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

func TestErrors(t *testing.T) {
	ok := line(0, success)
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "\n", "the log is empty"},
		{"other programs'", "a\nb\n", "none of 2 lines is of retrylog"},
		{"slog's text", "time=x level=DEBUG msg=retrying attempt=1 class=transient elapsed=1ms\n", "use slog.NewJSONHandler"},
		{"damaged", ok[:len(ok)-30], "1 lines look like those of retrylog, but none can be read"},
		{"other hosts", ok, `no attempt goes to the host "b.test"; the log has "a.test:80" (1)`},
		{"no success", line(0, retrying), "retrylog"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o Options
			if tt.name == "other hosts" {
				o.Host = "b.test"
			}
			l, err := read(t, tt.text, o)
			if err == nil {
				_, err = l.Fit(0)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := Read(t.Context(), iotest.ErrReader(broken), Options{}); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if _, err := Read(ctx, strings.NewReader(ok), Options{}); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

// Only the requests to a host count, whatever the case of its letters.
func TestHost(t *testing.T) {
	other := strings.ReplaceAll(line(0, success), "a.test:80", "B.test")
	l, err := read(t, line(0, success)+other+other, Options{Host: "b.Test"})
	if err != nil || l.Lines.Used != 2 || l.Lines.OtherHosts != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

// repeated is a text that is read again and again, up to a number of bytes.
type repeated struct {
	text string
	left int
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.left)], r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	r.left -= n
	return n, nil
}

// A line of 100 MB takes no memory.
func TestEndlessLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := io.MultiReader(&repeated{text: "x", left: 1}, &repeated{text: strings.Repeat("x", 1<<16), left: 100 << 20},
		strings.NewReader("\n"+line(0, success)))
	l, err := Read(t.Context(), in, Options{})
	runtime.ReadMemStats(&after)
	if err != nil || l.Lines.TooLong != 1 || l.Lines.Used != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
}

// Whatever the times, the number of bins is bounded and nothing is lost.
func TestBins(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   func(i int) time.Duration
	}{
		{"forward", func(i int) time.Duration { return time.Duration(i) * time.Second }},
		{"backward", func(i int) time.Duration { return -time.Duration(i) * time.Second }},
		{"both ways", func(i int) time.Duration { return time.Duration(i*(i%2*2-1)) * time.Minute }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBins(64, time.Millisecond, func(into *int, from int) { *into += from })
			for i := range 10_000 {
				*b.at(began.Add(tt.at(i)))++
			}
			sum := 0
			for _, n := range b.list {
				sum += n
			}
			if sum != 10_000 || len(b.list) > 64 {
				t.Errorf("%d of 10,000 are in %d bins", sum, len(b.list))
			}
			at := b.at(began.Add(tt.at(7)))
			if i := int(b.number(began.Add(tt.at(7))) - b.first); at != &b.list[i] || b.start(i).After(began.Add(tt.at(7))) {
				t.Errorf("the bin of an instant begins after it, at %v", b.start(i))
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(line(0, success) + line(3, retrying) + line(100, strings.Replace(success, `1`, `2`, 1))))
	f.Add([]byte(line(0, success) + strings.Replace(line(0, success), "2026-01-02", "2026-01-01", 1)))
	f.Add([]byte(line(9000, success) + line(0, strings.ReplaceAll(success, "success", "timeout")) + line(50, retrying)))
	f.Add([]byte(strings.Repeat(line(0, success+`,"limits":"a 5/60 1s, 7/9 12ms refills"`), 25)))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Read(t.Context(), bytes.NewReader(text), Options{})
		if err != nil {
			return
		}
		fitted, err := l.Fit(0)
		if err != nil {
			return
		}
		file, err := fitted.File()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scenario.Parse(file); err != nil {
			t.Errorf("%v\n%s", err, file)
		}
	})
}

// A call that was refused before its first attempt counts as a failed call without
// an attempt.
func TestRefusedCalls(t *testing.T) {
	text := ""
	for i := range 3000 { // at 100 a second
		attributes := success
		if i%4 == 0 {
			attributes = refused
		}
		text += line(10*i, attributes)
	}
	l, err := read(t, text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fit, err := l.Fit(0)
	if err != nil {
		t.Fatal(err)
	}
	r := fit.Recorded
	if r.Calls != r.Attempts+r.Failed || float64(r.Failed) < 0.24*float64(r.Calls) || r.Throttled != 0 {
		t.Errorf("%+v", r)
	}
}
