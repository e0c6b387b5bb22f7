package traffic

import (
	"bufio"
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

// endless writes a log of a service that throttles a tenth of its requests, with
// 300 attempts per second.
func endless(out io.Writer, bytes int) error {
	random := rand.New(rand.NewPCG(1, 2))
	w := bufio.NewWriter(out)
	defer w.Flush()
	at, retried, succeeded := began, 0, 0
	for written := 0; written < bytes; {
		at = at.Add(time.Duration(random.ExpFloat64() / 300 * float64(time.Second)))
		elapsed := int64(math.Exp(random.NormFloat64()) * 20)
		line := fmt.Sprintf(`"attempt":1,"class":"success","status":200,"elapsed_ms":%d,"stop":"success","call":"x%x"`,
			elapsed, random.Uint64())
		switch n := random.IntN(100); {
		case n < 10:
			retried++
			line = fmt.Sprintf(`"attempt":1,"class":"throttled","status":400,"code":"ThrottlingException",`+
				`"elapsed_ms":%d,"delay_ms":%d,"call":"%x"`, elapsed/10, random.Int64N(1e3), retried)
		case n < 20 && succeeded < retried:
			succeeded++
			line = fmt.Sprintf(`"attempt":2,"class":"success","status":200,"elapsed_ms":%d,"stop":"success","call":"%x"`,
				elapsed, succeeded)
		}
		n, err := fmt.Fprintf(w, `{"time":%q,"level":"DEBUG","msg":"x","method":"GET","url":"https://a.test/",%s}`+"\n",
			at.Format(time.RFC3339Nano), line)
		if err != nil {
			return err
		}
		written += n
	}
	return nil
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
	in, out := io.Pipe()
	go func() { out.CloseWithError(endless(out, int(size*1e9))) }()
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
	t.Logf("%.1f GB, %d lines: read in %v, fitted in %v; %d MB from the system",
		size, l.Lines.Used, read.Round(time.Second), (time.Since(begin) - read).Round(time.Millisecond), m.Sys>>20)
	if most := uint64(200 << 20); m.Sys > most {
		t.Errorf("it took %d MB from the system, want at most %d", m.Sys>>20, most>>20)
	}
}
