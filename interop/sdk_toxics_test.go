package interop

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestToxics has toxiproxy spoil the connections of real clients to real servers. Every attempt has a connection of its own,
// so that each meets the toxic with the odds given. Settings beside newRetrying's: 20 attempts, and a shorter AttemptTimeout
// where answers never come.
func TestToxics(t *testing.T) {
	toxics := []struct {
		name   string
		toxics []string
		bites  awsretry.Class // what some attempts end as, so that retries are needed; Success: none
		slows  time.Duration
	}{
		{"reset_peer before the request is there", []string{
			`{"type": "reset_peer", "stream": "upstream", "toxicity": 0.3, "attributes": {"timeout": 0}}`}, awsretry.Transient, 0},
		{"reset_peer instead of the answer", []string{
			`{"type": "reset_peer", "stream": "downstream", "toxicity": 0.3, "attributes": {"timeout": 5}}`}, awsretry.Transient, 0},
		{"timeout, then closed", []string{
			`{"type": "timeout", "stream": "upstream", "toxicity": 0.3, "attributes": {"timeout": 30}}`}, awsretry.Transient, 0},
		{"timeout, never closed", []string{
			`{"type": "timeout", "stream": "upstream", "toxicity": 0.3, "attributes": {"timeout": 0}}`}, awsretry.Timeout, 0},
		{"limit_data in the answer's headers", []string{
			`{"type": "limit_data", "stream": "downstream", "toxicity": 0.3, "attributes": {"bytes": 30}}`}, awsretry.Transient, 0},
		{"limit_data in the answer's body", []string{
			`{"type": "limit_data", "stream": "downstream", "toxicity": 0.3, "attributes": {"bytes": 700}}`}, awsretry.Transient, 0},
		{"limit_data in the request", []string{
			`{"type": "limit_data", "stream": "upstream", "toxicity": 0.3, "attributes": {"bytes": 500}}`}, awsretry.Transient, 0},
		{"latency", []string{
			`{"type": "latency", "stream": "downstream", "attributes": {"latency": 40, "jitter": 20}}`}, awsretry.Success, 20 * time.Millisecond},
		{"slow_close", []string{
			`{"type": "slow_close", "stream": "downstream", "attributes": {"delay": 100}}`}, awsretry.Success, 0},
		{"slicer and reset_peer", []string{
			`{"type": "slicer", "stream": "downstream", "attributes": {"average_size": 50, "size_variation": 40, "delay": 10}}`,
			`{"type": "reset_peer", "stream": "upstream", "toxicity": 0.3, "attributes": {"timeout": 10}}`}, awsretry.Transient, 0},
	}
	backends := []struct {
		name  string
		start func(testing.TB) string
		put   func(t *testing.T, addr string, rt http.RoundTripper) func(i int) error
		get   func(t *testing.T, addr string, rt http.RoundTripper) func(i int) error
	}{
		{"gofakes3", startGofakes3,
			func(t *testing.T, addr string, rt http.RoundTripper) func(int) error {
				client := newS3(addr, rt, aws.NopRetryer{})
				return func(i int) error { return s3Put(t.Context(), client, fmt.Sprint(i), s3Data((i+1)*701)) }
			},
			func(t *testing.T, addr string, rt http.RoundTripper) func(int) error {
				client := newS3(addr, rt, aws.NopRetryer{})
				return func(i int) error { return s3Get(t.Context(), client, fmt.Sprint(i), s3Data((i+1)*701)) }
			}},
		{"dynalite", func(t testing.TB) string {
			addr := startDynalite(t)
			createTable(t, addr)
			return addr
		},
			func(t *testing.T, addr string, rt http.RoundTripper) func(int) error {
				client := newDynamoDB(addr, rt, aws.NopRetryer{})
				return func(i int) error { return ddbPut(t.Context(), client, i+20) }
			},
			func(t *testing.T, addr string, rt http.RoundTripper) func(int) error {
				client := newDynamoDB(addr, rt, aws.NopRetryer{})
				return func(i int) error { return ddbGet(t.Context(), client, i+20) }
			}},
	}
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			addr, proxies := backend.start(t), newToxicServer(t)
			for _, toxic := range toxics {
				t.Run(toxic.name, func(t *testing.T) {
					const operations = 40 // that the toxic misses them all has odds of 10^-6
					log := newAttemptLog()
					base := newBase(t)
					base.DisableKeepAlives = true
					transport := newRetrying(base, log.observe)
					transport.MaxAttempts = 20
					if toxic.bites == awsretry.Timeout {
						transport.AttemptTimeout = 200 * time.Millisecond
					}
					through := proxies.proxy(addr, toxic.toxics...)
					start := time.Now()
					for _, do := range []func(int) error{backend.put(t, through, transport), backend.get(t, through, transport)} {
						inParallel(operations, 8, func(i int) {
							if err := do(i); err != nil {
								t.Errorf("operation %d: %v", i, err)
							}
						})
					}
					elapsed := time.Since(start)
					proxies.stop(through)
					if toxic.bites != awsretry.Success && log.classes[toxic.bites] == 0 {
						t.Errorf("no attempt ended as %v, so nothing was tested", toxic.bites)
					}
					if elapsed < 2*operations/8*toxic.slows {
						t.Errorf("all of it took %v, so nothing was slow", elapsed)
					}
					t.Logf("%d operations, %d retries, %v: %v", 2*operations, log.retries, elapsed.Round(time.Millisecond), log.classes)
				})
			}
		})
	}
}
