package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// nginxLimitReq is an nginx that limits requests with limit_req to 200 per
// second. Its responses above the limit have the lines of header.
func nginxLimitReq(limit, header string) startThrottler { return nginxLimiting(200, limit, header) }

// nginxLimiting is nginxLimitReq with another rate.
func nginxLimiting(rate int, limit, header string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		path := nginxPath(t)
		return startOnPort(t, func(addr string) *exec.Cmd {
			nginx := exec.Command(path, "-p", t.TempDir(), "-c", "nginx.conf", "-e", "stderr")
			nginx.Dir = nginx.Args[2]
			config := fmt.Appendf(nil, `daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
%s
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_requests 1000000;
	client_max_body_size 0;
	limit_req_zone $binary_remote_addr zone=service:1m rate=%dr/s;
	server {
		listen %s;
		location / {
			limit_req zone=service %s;
			limit_req_status 429;
			error_page 429 /throttled;
			proxy_pass %s;
		}
		location = /throttled {
			internal;
			default_type application/xml;
			%s
			return 429 '%s';
		}
	}
}
`, nginxUser(), rate, addr, limit, service, header, slowDown)
			if err := os.WriteFile(filepath.Join(nginx.Dir, "nginx.conf"), config, 0o600); err != nil {
				t.Fatal(err)
			}
			return nginx
		})
	}
}

const retryAfterOneSecond = "add_header Retry-After 1 always;"
