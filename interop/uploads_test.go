package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/hashicorp/go-retryablehttp"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// These tests are about clients whose GetBody rewinds the one reader that they
// have. If it is called while the attempt before still reads, the retry begins
// in the middle.

// persistent returns a Transport that makes enough attempts for a server that
// refuses most of them.
func persistent(base http.RoundTripper) *awsretry.Transport {
	return &awsretry.Transport{
		Base: base, MaxAttempts: 50, Quota: awsretry.QuotaConfig{Capacity: -1},
		Backoff: awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	}
}

// A slowDisk is a file whose Reads take a moment, so that one is in progress when
// the response comes.
type slowDisk struct{ f io.ReadSeeker }

func (d slowDisk) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Microsecond)
	return d.f.Read(p)
}

func (d slowDisk) Seek(offset int64, whence int) (int64, error) { return d.f.Seek(offset, whence) }

// go-retryablehttp rewinds a file. It does not know its length, so the server
// cannot know that a request is short.
func TestRetryablehttpBelowNginx(t *testing.T) {
	const uploads, size = 12, 8 << 20
	data := bytes.Repeat(chaosBytes(1, chaosMaxBody), size/chaosMaxBody+1)[:size]
	file := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	want := crc32.ChecksumIEEE(data)
	var stored atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := crc32.NewIEEE()
		n, err := io.Copy(sum, r.Body)
		if stored.Add(1); n != size || sum.Sum32() != want || err != nil {
			t.Errorf("%d bytes of %d were stored; %v", n, size, err)
		}
	}))
	defer service.Close()
	addr := nginxLimiting(20, "", "")(t, service.URL)

	var sent atomic.Int32
	tr := persistent(newPool(t))
	tr.Observe = func(awsretry.Attempt) { sent.Add(1) }
	client := retryablehttp.NewClient()
	client.HTTPClient, client.Logger, client.RetryMax = &http.Client{Transport: tr}, nil, 0
	inParallel(uploads, 4, func(int) {
		f, err := os.Open(file)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		req, err := retryablehttp.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/object", slowDisk{f})
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Error(resp.Status)
		}
	})
	t.Logf("%d of %d uploads were stored, with %d attempts", stored.Load(), uploads, sent.Load())
	if sent.Load() == uploads {
		t.Error("nginx limited nothing, so nothing was tested")
	}
}

// A refusing handler responds with 503 to every other request with a body,
// after the beginning of the body, and passes the rest on.
type refusing struct {
	next http.Handler
	n    atomic.Int32
}

func (h *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.n.Add(1)%2 == 0 {
		h.next.ServeHTTP(w, r)
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, 300<<10)
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // or the server would read on
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// serveRefusing starts a server with a refusing handler.
func serveRefusing(t *testing.T, http2 bool, next http.HandlerFunc) (url string, pool *http.Transport) {
	srv := httptest.NewUnstartedServer(&refusing{next: next})
	srv.Config.ErrorLog = quiet
	if srv.EnableHTTP2 = http2; http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	pool = srv.Client().Transport.(*http.Transport)
	return srv.URL, pool
}

// connect-go rewinds its message.
func TestConnectUnary(t *testing.T) {
	const calls, size = 3, 16 << 20
	data := bytes.Repeat(chaosBytes(2, chaosMaxBody), size/chaosMaxBody+1)[:size]
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", http2), func(t *testing.T) {
			const procedure = "/interop.Sum/Sum"
			handler := connect.NewUnaryHandler(procedure,
				func(_ context.Context, req *connect.Request[wrapperspb.BytesValue]) (
					*connect.Response[wrapperspb.UInt32Value], error,
				) {
					return connect.NewResponse(wrapperspb.UInt32(crc32.ChecksumIEEE(req.Msg.Value))), nil
				})
			url, pool := serveRefusing(t, http2, handler.ServeHTTP)
			client := connect.NewClient[wrapperspb.BytesValue, wrapperspb.UInt32Value](
				&http.Client{Transport: persistent(pool)}, url+procedure)
			inParallel(calls, 2, func(int) {
				resp, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.Bytes(data)))
				if err != nil {
					t.Error(err)
				} else if resp.Msg.Value != crc32.ChecksumIEEE(data) {
					t.Error("another message arrived")
				}
			})
		})
	}
}

// A slowBody reads a little at a time, so that a Read is in progress when the
// response comes. The race detector reports a Seek beside it.
type slowBody struct {
	*bytes.Reader
	at int64
}

func (s *slowBody) Read(p []byte) (int, error) {
	n, err := s.Reader.ReadAt(p, s.at)
	time.Sleep(50 * time.Microsecond)
	s.at += int64(n)
	return n, err
}

func (s *slowBody) Seek(offset int64, whence int) (int64, error) {
	at, err := s.Reader.Seek(offset, whence)
	s.at = at
	return at, err
}

// azcore rewinds the body of a blob, and fails for good if a body is short.
func TestAzblob(t *testing.T) {
	const uploads, size = 10, 12 << 20
	data := bytes.Repeat(chaosBytes(3, chaosMaxBody), size/chaosMaxBody+1)[:size]
	var mu sync.Mutex
	stored := 0
	url, pool := serveRefusing(t, false, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(body, data) {
			t.Errorf("%d bytes of %d were stored; %v", len(body), size, err)
		}
		mu.Lock()
		defer mu.Unlock()
		stored++
		w.WriteHeader(http.StatusCreated)
	})
	client, err := blockblob.NewClientWithNoCredential(url+"/container/blob", &blockblob.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Retry:     policy.RetryOptions{MaxRetries: -1},
			Transport: &http.Client{Transport: persistent(pool)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	inParallel(uploads, 4, func(n int) {
		body := streaming.NopCloser(bytes.NewReader(data))
		if n%2 == 0 {
			body = streaming.NopCloser(&slowBody{Reader: bytes.NewReader(data)})
		}
		if _, err := client.Upload(t.Context(), body, nil); err != nil {
			t.Error(err)
		}
	})
	if stored != uploads {
		t.Errorf("%d of %d were stored", stored, uploads)
	}
}

// A file is uploaded from where it stands, over net/http's sendfile path. The
// retry needs no buffer.
func TestFileInPlace(t *testing.T) {
	file := fileOf(append([]byte("skip"), content...)).open(t).(*os.File)
	if _, err := file.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int32
	srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(body, content) {
			t.Errorf("%d bytes arrived of %d, %v", len(body), len(content), err)
		}
		if sent.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	req := srv.Request(t, http.MethodPut, file)
	req.ContentLength = int64(len(content))
	tr := retrying(srv.Base)
	tr.MaxBodyBuffer = -1
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	httpfake.ReadAll(t, resp)
	if resp.StatusCode != 200 || sent.Load() != 2 {
		t.Errorf("status %d after %d attempts", resp.StatusCode, sent.Load())
	}
	if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Error("the file is open")
	}
}
