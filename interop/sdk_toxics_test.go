package interop

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// A toxicCase is a way to spoil connections.
type toxicCase struct {
	name   string
	toxics []string
	class  awsretry.Class // of the attempts that meet a toxic; 0: none fails
	delay  time.Duration  // of each response
}

const transient = awsretry.Transient

var toxicCases = []toxicCase{
	{"reset_peer before the request arrives", []string{toxic("reset_peer", up, .3, `"timeout": 0`)}, transient, 0},
	{"reset_peer instead of the response", []string{toxic("reset_peer", down, .3, `"timeout": 5`)}, transient, 0},
	{"timeout, then closed", []string{toxic("timeout", up, .3, `"timeout": 30`)}, transient, 0},
	{"timeout, never closed", []string{toxic("timeout", up, .3, `"timeout": 0`)}, awsretry.Timeout, 0},
	{"limit_data in the response header", []string{toxic("limit_data", down, .3, `"bytes": 30`)}, transient, 0},
	// Only what is read back is so long.
	{"limit_data in the response body", []string{toxic("limit_data", down, .5, `"bytes": 700`)}, transient, 0},
	{"limit_data in the request", []string{toxic("limit_data", up, .3, `"bytes": 500`)}, transient, 0},
	{"latency", []string{toxic("latency", down, 1, `"latency": 40, "jitter": 20`)}, 0, 20 * time.Millisecond},
	{"slow_close", []string{toxic("slow_close", down, 1, `"delay": 100`)}, 0, 0},
	{"slicer and reset_peer", []string{
		toxic("slicer", down, 1, `"average_size": 50, "size_variation": 40, "delay": 10`),
		toxic("reset_peer", up, .3, `"timeout": 10`),
	}, transient, 0},
}

// A toxicBackend is a service whose i-th object can be written and read.
type toxicBackend struct {
	name     string
	start    func(*testing.T) (addr string)
	put, get func(t *testing.T, addr string, rt http.RoundTripper, i int) error
}

var toxicBackends = []toxicBackend{{
	name:  "gofakes3",
	start: func(t *testing.T) string { return startGofakes3(t) },
	put: func(t *testing.T, addr string, rt http.RoundTripper, i int) error {
		return s3Put(t.Context(), newS3(addr, rt, aws.NopRetryer{}), fmt.Sprint(i), s3Data((i+1)*701))
	},
	get: func(t *testing.T, addr string, rt http.RoundTripper, i int) error {
		return s3Get(t.Context(), newS3(addr, rt, aws.NopRetryer{}), fmt.Sprint(i), s3Data((i+1)*701))
	},
}, {
	name: "dynalite",
	start: func(t *testing.T) string {
		addr := startDynalite(t)
		createTable(t, addr)
		return addr
	},
	put: func(t *testing.T, addr string, rt http.RoundTripper, i int) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, aws.NopRetryer{}), i+20)
	},
	get: func(t *testing.T, addr string, rt http.RoundTripper, i int) error {
		return ddbGet(t.Context(), newDynamoDB(addr, rt, aws.NopRetryer{}), i+20)
	},
}}

// toxiproxy spoils the connections of real clients to real servers.
func TestToxics(t *testing.T) {
	takesLong(t)
	proxies := startToxiproxy(t)
	for _, backend := range toxicBackends {
		t.Run(backend.name, func(t *testing.T) {
			addr := backend.start(t)
			for _, toxic := range toxicCases {
				t.Run(toxic.name, func(t *testing.T) {
					t.Parallel() // it waits more than it computes
					toxic.run(t, backend, proxies.proxy(addr, toxic.toxics...))
				})
			}
		})
	}
}

// run writes and reads objects through the proxy that listens at through. Each
// attempt has a connection of its own, so that each meets the toxic with the
// odds given.
func (c toxicCase) run(t *testing.T, backend toxicBackend, through string) {
	const operations = 20 // the odds that no connection of 40 meets a toxic are 10^-6
	log := newAttemptLog()
	base := newPool(t)
	base.DisableKeepAlives = true
	tr := forFaultyService(base, log.observe)
	tr.MaxAttempts = 20
	if c.class == awsretry.Timeout {
		tr.AttemptTimeout = 500 * time.Millisecond
	}
	const workers = 8
	start := time.Now()
	for _, do := range []func(*testing.T, string, http.RoundTripper, int) error{backend.put, backend.get} {
		inParallel(operations, workers, func(i int) {
			if err := do(t, through, tr, i); err != nil {
				t.Errorf("operation %d: %v", i, err)
			}
		})
	}
	elapsed := time.Since(start)
	if c.class != awsretry.Success && log.classes[c.class] == 0 {
		t.Errorf("no attempt ended as %v, so nothing was tested", c.class)
	}
	if elapsed < 2*operations/workers*c.delay {
		t.Errorf("all of it took %v, so nothing was slow", elapsed)
	}
	t.Logf("%d operations, %d retries, %v: %v", 2*operations, log.retries, elapsed.Round(time.Millisecond), log.classes)
}
