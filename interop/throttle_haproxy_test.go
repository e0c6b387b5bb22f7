package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// haproxyDenying is a HAProxy that denies requests with 429 under a condition.
// The stick table counts the requests of a caller, those that are denied
// included.
func haproxyDenying(rate, condition string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		path, err := exec.LookPath("haproxy")
		if err != nil {
			cannotRun(t, "haproxy is not in PATH: install it (https://www.haproxy.org, or apt-get install haproxy)")
		}
		return startOnPort(t, func(addr string) *exec.Cmd {
			config := filepath.Join(t.TempDir(), "haproxy.cfg")
			text := fmt.Appendf(nil, `global
	maxconn 512
	nbthread 1
defaults
	mode http
	timeout connect 5s
	timeout client 2m
	timeout server 2m
frontend throttled
	bind %s
	stick-table type ip size 1k expire 1m store %s
	http-request track-sc0 src
	http-request deny status 429 content-type application/xml string "%s" if %s
	default_backend service
backend service
	server service %s
`, addr, rate, slowDown, condition, hostOf(t, service))
			if err := os.WriteFile(config, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return exec.Command(path, "-db", "-f", config)
		})
	}
}
