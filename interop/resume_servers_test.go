package interop

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// A rangeService has one object.
type rangeService struct {
	addr string         // without a proxy
	root *x509.CertPool // trusts the service
	put  func(content []byte)
	get  func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error)
}

// A rangeServer is a kind of server that knows ranges.
type rangeServer struct {
	name     string
	start    func(*testing.T) rangeService
	http2    bool
	replaced string // in the error after the object was replaced
}

const (
	sentAgain   = "sent the whole object again" // the server obeys If-Range
	anotherETag = "the object has changed: its ETag is"
)

var rangeServers = []rangeServer{
	{name: "nginx", replaced: sentAgain, start: func(t *testing.T) rangeService { return startStaticNginx(t, "", "http") }},
	{
		name: "nginx over HTTP/2", replaced: sentAgain, http2: true,
		start: func(t *testing.T) rangeService { return startStaticNginx(t, "ssl http2", "https") },
	},
	{name: "s3rver", replaced: anotherETag, start: func(t *testing.T) rangeService { return startRangeS3(t, startS3rver) }},
	{name: "gofakes3", replaced: anotherETag, start: func(t *testing.T) rangeService {
		return startRangeS3(t, startGofakes3)
	}},
}

// startRangeS3 starts an S3 server, whose object the AWS SDK reads and writes.
func startRangeS3(t *testing.T, start func(testing.TB) string) rangeService {
	addr := start(t)
	return rangeService{
		addr: addr,
		put: func(content []byte) {
			if err := s3Put(t.Context(), newS3(addr, newPool(t), aws.NopRetryer{}), "object", content); err != nil {
				t.Fatal(err)
			}
		},
		get: func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error) {
			out, err := newS3(through, rt, nil).GetObject(ctx, &s3.GetObjectInput{
				Bucket: aws.String(s3Bucket), Key: aws.String("object"),
			})
			if err != nil {
				return nil, err
			}
			return out.Body, nil
		},
	}
}

// startStaticNginx starts an nginx that serves a file.
func startStaticNginx(t *testing.T, protocol, scheme string) rangeService {
	path, dir := nginxPath(t), t.TempDir()
	cert, root := certificate()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	service := rangeService{root: root, get: func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+through+"/object", nil)
		if err != nil {
			return nil, err
		}
		resp, err := (&http.Client{Transport: rt}).Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}}
	versions := 0
	service.put = func(content []byte) {
		write("new", content)
		// nginx makes the ETag of the length and the time, in seconds.
		versions++
		modified := time.Unix(int64(1_000_000_000+versions), 0)
		if err := os.Chtimes(filepath.Join(dir, "new"), modified, modified); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "object")); err != nil {
			t.Fatal(err)
		}
	}
	service.addr = startOnPort(t, func(addr string) *exec.Cmd {
		write("nginx.conf", fmt.Appendf(nil, `daemon off;
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
	server {
		listen %s %s;
		ssl_certificate cert.pem;
		ssl_certificate_key key.pem;
		root %s;
	}
}
`, nginxUser(), addr, protocol, dir))
		nginx := exec.Command(path, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
		nginx.Dir = dir
		return nginx
	})
	return service
}

// resuming returns a Transport that continues bodies without long delays.
func resuming(base http.RoundTripper, observe func(awsretry.Attempt)) *awsretry.Transport {
	return &awsretry.Transport{
		Base: base, Resume: true, Observe: observe,
		Backoff: awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	}
}
