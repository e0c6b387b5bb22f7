package clients

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/retrylog"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// trafficFigures are what the callers saw, whatever the log says.
type trafficFigures struct {
	Seconds  float64 `json:"seconds"`
	Calls    int     `json:"calls"`
	Good     int     `json:"good"`
	Attempts int     `json:"attempts"`
	P50      float64 `json:"p50_seconds"` // of the calls that succeeded
	P99      float64 `json:"p99_seconds"`
}

// recordTraffic writes the log of a Transport and the figures of its callers
// into files of that name.
func recordTraffic(t *testing.T, name string, base http.RoundTripper, call func(http.RoundTripper)) {
	var log bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&log, gzip.BestCompression) // a level that there is
	logger := slog.New(slog.NewJSONHandler(anyPort{zip}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var mu sync.Mutex // guards the variables below
	var f trafficFigures
	var took []float64
	attempt := func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		f.Attempts++
		mu.Unlock()
		return base.RoundTrip(req)
	}
	tr := &awsretry.Transport{Base: httpfake.Base(attempt), Observe: retrylog.Config{Logger: logger, All: true}.Observer()}
	begin := time.Now()
	call(httpfake.Base(func(req *http.Request) (*http.Response, error) {
		called := time.Now()
		resp, err := tr.RoundTrip(req)
		mu.Lock()
		defer mu.Unlock()
		f.Calls++
		if err == nil && resp.StatusCode < 400 {
			f.Good++
			took = append(took, time.Since(called).Seconds())
		}
		return resp, err
	}))
	f.Seconds = time.Since(begin).Seconds()
	slices.Sort(took)
	f.P50, f.P99 = took[len(took)/2], took[len(took)*99/100]
	t.Logf("%+v", f)
	text := kit.Must[[]byte](t)(json.MarshalIndent(f, "", "\t"))
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(kit.Find(t, trafficFolder), name)
	kit.WriteFile(t, file+".json", append(text, '\n'))
	kit.WriteFile(t, file+".jsonl.gz", log.Bytes())
}

// anyPort writes lines without the port of the server, which differs from run
// to run.
type anyPort struct{ io.Writer }

var loopbackPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func (w anyPort) Write(line []byte) (int, error) {
	_, err := w.Writer.Write(loopbackPort.ReplaceAll(line, []byte("127.0.0.1")))
	return len(line), err
}

// trafficFolder has the logs that simulate/traffic is tested with.
const trafficFolder = "simulate/traffic/testdata"

// TestRecordTraffic records what the simulation is compared with.
func TestRecordTraffic(t *testing.T) {
	if os.Getenv("RECORD") == "" {
		t.Skip("RECORD=1 records the logs in " + trafficFolder)
	}
	t.Run("nginx", recordNginx)
	t.Run("dynalite", recordDynalite)
}

// recordNginx is 50 calls per second to an nginx that allows 40, and passes them
// on to a slow service.
func recordNginx(t *testing.T) {
	const rate, seconds = 50, 40
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		z := random.NormFloat64()
		mu.Unlock()
		time.Sleep(time.Duration(math.Exp(0.6*z) * 40 * float64(time.Millisecond)))
	}))
	t.Cleanup(slow.Close)
	addr := nginxLimiting(40, "burst=10 nodelay", "")(t, slow.URL)
	recordTraffic(t, "nginx", kit.Pool(t), func(rt http.RoundTripper) {
		var calls sync.WaitGroup
		arrivals := rand.New(rand.NewPCG(3, 4))
		begin := time.Now()
		for at := time.Duration(0); at < seconds*time.Second; {
			at += time.Duration(arrivals.ExpFloat64() / rate * float64(time.Second))
			time.Sleep(at - time.Since(begin))
			calls.Go(func() { kit.Text((&http.Client{Transport: rt}).Get("http://" + addr)) })
		}
		calls.Wait()
	})
}

// recordDynalite is 10 callers of DynamoDB that rest for 50 ms between two
// calls. The service is 15 to 25 ms away. Of the requests, 6 % are throttled
// and 3 % fail.
func recordDynalite(t *testing.T) {
	const callers, seconds = 10, 40
	backend := startDynalite(t)
	pick := randomFaults(0.09, faultThrottling, faultThrottling, faultServerError)
	far := func(req *http.Request) fault {
		time.Sleep(time.Duration((15 + 10*rand.Float64()) * float64(time.Millisecond)))
		return pick(req)
	}
	base, addr := startFaulty(t, &faultyService{pick: far, fail: failDynamoDB}, backend)
	recordTraffic(t, "dynalite", base, func(rt http.RoundTripper) {
		client := newDynamoDB(addr, rt, aws.NopRetryer{})
		begin := time.Now()
		kit.InParallel(callers, callers, func(n int) {
			random := rand.New(rand.NewPCG(5, uint64(n)))
			for i := 0; time.Since(begin) < seconds*time.Second; i++ {
				ddbPut(t.Context(), client, n*1000+i) // failures are part of the recording
				time.Sleep(time.Duration(random.ExpFloat64() * 50 * float64(time.Millisecond)))
			}
		})
	})
}
