package traffic

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// A generator is a log without end, as of a service that throttles a tenth of
// its requests: 300 attempts per second.
type generator struct {
	random *rand.Rand
	at     time.Time
	left   int // bytes
	ready  []byte

	retried, succeeded int64 // calls
}

func (g *generator) Read(p []byte) (int, error) {
	if len(g.ready) == 0 {
		for len(g.ready) < 32<<10 {
			g.line()
		}
	}
	n := copy(p, g.ready)
	g.ready = g.ready[n:]
	if len(g.ready) == 0 {
		g.ready = g.ready[:0]
	}
	if g.left -= n; g.left <= 0 {
		return n, io.EOF
	}
	return n, nil
}

func (g *generator) line() {
	g.at = g.at.Add(time.Duration(g.random.ExpFloat64() / 300 * float64(time.Second)))
	elapsed := int64(math.Exp(g.random.NormFloat64()) * 20)
	b := append(g.ready, `{"time":"`...)
	b = g.at.AppendFormat(b, time.RFC3339Nano)
	b = append(b,
		`","level":"DEBUG","msg":"x","method":"GET","url":"https://dynamodb.us-east-1.amazonaws.com/","attempt":`...)
	id := func(call int64) string { return fmt.Sprintf(`"call":"%016x"}`, uint64(call)*0x9e3779b97f4a7c15) }
	switch n := g.random.IntN(100); {
	case n < 10:
		g.retried++
		b = fmt.Appendf(b, `1,"class":"throttled","status":400,"code":"ThrottlingException","elapsed_ms":%d,"delay_ms":%d,%s`,
			elapsed/10, g.random.Int64N(1e3), id(g.retried))
	case n < 20 && g.succeeded < g.retried:
		g.succeeded++
		b = fmt.Appendf(b, `2,"class":"success","status":200,"elapsed_ms":%d,"stop":"success",%s`, elapsed, id(g.succeeded))
	default:
		b = fmt.Appendf(b, `1,"class":"success","status":200,"elapsed_ms":%d,"stop":"success",%s`,
			elapsed, id(-g.random.Int64()))
	}
	g.ready = append(b, '\n')
}

// TestGigabytes reads as many gigabytes as the environment variable TRAFFIC_GB
// says, and prints the time and the memory that it takes.
func TestGigabytes(t *testing.T) {
	text := os.Getenv("TRAFFIC_GB")
	if text == "" {
		t.Skip("TRAFFIC_GB=1 reads a gigabyte")
	}
	size, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	in := &generator{random: rand.New(rand.NewPCG(1, 2)), at: began, left: int(size * 1e9)}
	begin := time.Now()
	l, err := Read(t.Context(), in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	read := time.Since(begin)
	if _, err := l.Fit(0); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, _ := os.ReadFile("/proc/self/status") // where there is one
	peak := "unknown"
	if _, after, ok := bytes.Cut(status, []byte("VmHWM:")); ok {
		peak = string(bytes.TrimSpace(after[:bytes.IndexByte(after, '\n')]))
	}
	t.Logf("%.1f GB, %d lines: read in %v, fitted in %v; peak RSS %s, %d MB from the system",
		size, l.Lines.Used, read.Round(time.Second), (time.Since(begin) - read).Round(time.Millisecond), peak, m.Sys>>20)
	if most := uint64(200 << 20); m.Sys > most {
		t.Errorf("it took %d MB from the system, want at most %d", m.Sys>>20, most>>20)
	}
}
