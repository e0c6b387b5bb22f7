package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// cutEvery is a toxic that closes each connection after so many bytes from the
// server.
func cutEvery(length int) string {
	return toxic("limit_data", down, 1, fmt.Sprintf(`"bytes": %d`, length))
}

// Objects are downloaded from real servers over connections that close every
// 100,000 bytes. They arrive whole. If the object is replaced meanwhile, Read
// returns an error and never a mix.
func TestResumeFromServers(t *testing.T) {
	const size, every, least = 1 << 20, 100_000, 11
	proxies := startToxiproxy(t)
	content, other := kit.Random(size, size), kit.Random(size+1, size+1)[1:]
	for _, server := range rangeServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel() // it waits more than it computes
			service := server.start(t)
			through := proxies.proxy(service.addr, cutEvery(every))
			pool := kit.Pool(t)
			most, protocol := least, 1
			if server.http2 { // the records and frames that are cut are lost
				most, protocol = 2*least, 2
				_, roots := kit.Certificate()
				pool.ForceAttemptHTTP2, pool.TLSClientConfig = true, &tls.Config{RootCAs: roots}
			}
			var attempts []awsretry.Attempt
			tr := resuming(pool, func(a awsretry.Attempt) { attempts = append(attempts, a) })

			service.put(content)
			body := kit.Must[io.ReadCloser](t)(service.get(t.Context(), through, tr))
			got, err := io.ReadAll(body)
			body.Close()
			if err != nil || sha256.Sum256(got) != sha256.Sum256(content) {
				t.Fatalf("%d bytes of %d, %v", len(got), size, err)
			}
			if len(attempts) < least || len(attempts) > most {
				t.Errorf("%d requests, want %d to %d", len(attempts), least, most)
			}
			for _, a := range attempts[1:] {
				if a.Class != awsretry.Success || a.Response.StatusCode != http.StatusPartialContent ||
					a.Response.ProtoMajor != protocol || a.Offset == 0 {
					t.Errorf("the request from %d on: %v, %v, %v", a.Offset, a.Class, a.Response, a.Err)
				}
			}

			attempts = nil
			body = kit.Must[io.ReadCloser](t)(service.get(t.Context(), through, tr))
			if _, err := io.ReadFull(body, got[:size/2]); err != nil {
				t.Fatal(err)
			}
			service.put(other)
			n, err := io.ReadFull(body, got[size/2:])
			body.Close()
			if n += size / 2; !bytes.Equal(got[:n], content[:n]) {
				t.Error("bytes of two versions")
			}
			failed := new(awsretry.Error)
			if !errors.As(err, &failed) || failed.Stop != awsretry.StopPermanent ||
				!strings.Contains(err.Error(), server.replaced) ||
				!strings.Contains(err.Error(), fmt.Sprintf("broke off after %d bytes", n)) {
				t.Errorf("after %d bytes of the first version: %v, want %q", n, err, server.replaced)
			}
		})
	}
}

// A rangeService has one object.
type rangeService struct {
	addr string // without a proxy
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
	{name: "nginx", replaced: sentAgain, start: startStaticNginx("", "http")},
	{name: "nginx over HTTP/2", replaced: sentAgain, http2: true, start: startStaticNginx("ssl http2", "https")},
	{name: "gofakes3", replaced: anotherETag, start: startRangeS3(startGofakes3)},
}

// startRangeS3 starts an S3 server, whose object the AWS SDK reads and writes.
func startRangeS3(start func(testing.TB) string) func(*testing.T) rangeService {
	return func(t *testing.T) rangeService {
		addr := start(t)
		return rangeService{
			addr: addr,
			put: func(content []byte) {
				if err := s3Put(t.Context(), newS3(addr, kit.Pool(t), aws.NopRetryer{}), "object", content); err != nil {
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
}

// startStaticNginx starts an nginx that serves a file.
func startStaticNginx(protocol, scheme string) func(*testing.T) rangeService {
	return func(t *testing.T) rangeService {
		dir := t.TempDir()
		addr, _ := kit.StartNginx(t, dir, fmt.Sprintf("server { listen ADDR %s; root %s; }", protocol, dir))
		versions := 0
		return rangeService{
			addr: addr,
			put: func(content []byte) {
				file := filepath.Join(dir, "new")
				kit.WriteFile(t, file, content)
				// nginx makes the ETag of the length and the time, in seconds.
				versions++
				modified := time.Unix(int64(1_000_000_000+versions), 0)
				if err := os.Chtimes(file, modified, modified); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(file, filepath.Join(dir, "object")); err != nil {
					t.Fatal(err)
				}
			},
			get: func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error) {
				req := kit.NewRequest(t, ctx, http.MethodGet, scheme+"://"+through+"/object", nil)
				resp, err := (&http.Client{Transport: rt}).Do(req)
				if err != nil {
					return nil, err
				}
				if resp.StatusCode != http.StatusOK {
					resp.Body.Close()
					return nil, fmt.Errorf("status %d", resp.StatusCode)
				}
				return resp.Body, nil
			},
		}
	}
}

// resuming returns a Transport that continues bodies without long delays.
func resuming(base http.RoundTripper, observe func(awsretry.Attempt)) *awsretry.Transport {
	return &awsretry.Transport{
		Base: base, Resume: true, Observe: observe,
		Backoff: awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	}
}
