package clients

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// These uploads break, or are refused, while their bodies are read: of clients
// whose GetBody rewinds the one reader that they have, or whose body has a state
// that Close gives back. A retry that begins while the attempt before still
// reads would send another body. The race detector reports it, too.

// An upload is one call of a client. do sends data, and returns its error.
type upload struct {
	client  string
	http2   bool
	size    int
	count   int
	kept    int64 // MaxBodyBuffer
	handler func(stored func(body []byte)) http.HandlerFunc
	do      func(ctx context.Context, client *http.Client, url string, data []byte) error
}

const sumProcedure = "/interop.Sum/Sum"

// sumHandler is connect-go's handler of the messages that uploads send.
func sumHandler(stored func([]byte)) http.HandlerFunc {
	return connect.NewUnaryHandler(sumProcedure, func(_ context.Context, req *connect.Request[wrapperspb.BytesValue]) (
		*connect.Response[wrapperspb.BoolValue], error,
	) {
		stored(req.Msg.Value)
		return connect.NewResponse(wrapperspb.Bool(true)), nil
	}).ServeHTTP
}

func sendMessage(ctx context.Context, client *http.Client, url string, data []byte) error {
	c := connect.NewClient[wrapperspb.BytesValue, wrapperspb.BoolValue](client, url+sumProcedure)
	_, err := c.CallUnary(ctx, connect.NewRequest(wrapperspb.Bytes(data)))
	return err
}

// storing returns a handler of plain uploads.
func storing(read func(io.Reader) io.Reader) func(func([]byte)) http.HandlerFunc {
	return func(stored func([]byte)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(read(r.Body))
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			stored(body)
			w.Header().Set("ETag", `"x"`)
		}
	}
}

var uploads = []upload{
	// It rewinds a file. It does not know its length, so the server cannot know
	// that a request is short.
	{"go-retryablehttp", false, 5 << 20, 4, -1, storing(func(r io.Reader) io.Reader { return r }),
		func(ctx context.Context, c *http.Client, url string, data []byte) error {
			client := retryablehttp.NewClient()
			client.HTTPClient, client.Logger, client.RetryMax = c, nil, 0
			req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPut, url+"/object", newSlowBody(data))
			if err == nil {
				_, err = kit.Text(client.Do(req))
			}
			return err
		}},
	{"connect-go", true, 8 << 20, 2, -1, sumHandler, sendMessage},
	{"minio-go", false, 3 << 20, 4, 8 << 20, storing(httputil.NewChunkedReader), putWithMinio},
	{"minio-go, nothing buffered", false, 3 << 20, 4, -1, storing(httputil.NewChunkedReader), putWithMinio},
}

// putWithMinio sends a stream, which minio-go signs chunk by chunk while it is
// sent. Close gives the hash to a pool.
func putWithMinio(ctx context.Context, c *http.Client, server string, data []byte) error {
	client, err := minio.New(strings.TrimPrefix(server, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4("id", "secret", ""), Region: "us-east-1", Transport: c.Transport, MaxRetries: 1,
	})
	if err == nil {
		body := struct{ io.Reader }{newSlowBody(data)}
		_, err = client.PutObject(ctx, "bucket", "key", body, int64(len(data)),
			minio.PutObjectOptions{DisableMultipart: true})
	}
	return err
}

// Every other request fails in the middle of its body. What is stored is what
// was sent, and every upload that can be sent again succeeds.
func TestUploads(t *testing.T) {
	for _, u := range uploads {
		for name, fault := range map[string]http.HandlerFunc{
			"503": func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 1 {
					w.Header().Set("Connection", "close") // or the server would read on
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			"reset": hangUp,
			"hang":  func(_ http.ResponseWriter, r *http.Request) { kit.Pause(r.Context(), time.Second) },
		} {
			if name == "hang" && u.size > 4<<20 { // a whole one could take longer than the time-out
				continue
			}
			t.Run(u.client+"/"+name, func(t *testing.T) {
				tr := kit.Retrying(nil)
				tr.MaxAttempts, tr.MaxBodyBuffer = 50, u.kept
				tr.Quota.Capacity = -1
				if name == "hang" {
					tr.AttemptTimeout = 300 * time.Millisecond
				}
				u.run(t, fault, tr)
			})
		}
	}
}

func (u upload) run(t *testing.T, fault http.HandlerFunc, tr *awsretry.Transport) {
	data := kit.Random(4, u.size)
	var requests, stored atomic.Int32
	next := u.handler(func(body []byte) {
		stored.Add(1)
		if !bytes.Equal(body, data) {
			t.Errorf("%d bytes of %d were stored", len(body), len(data))
		}
	})
	protocol := "HTTP/1.1"
	if u.http2 {
		protocol = "HTTP/2"
	}
	srv := httpfake.ServeTCP(t, protocol, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			io.CopyN(io.Discard, r.Body, 300<<10)
			fault(w, r)
			return
		}
		next(w, r)
	})
	tr.Base = srv.Base
	mayFail := tr.AttemptTimeout > 0 || strings.HasSuffix(u.client, "nothing buffered")
	kit.InParallel(u.count, 2, func(int) {
		if err := u.do(t.Context(), &http.Client{Transport: tr}, srv.URL, data); err != nil && !mayFail {
			t.Error(err)
		}
	})
	if n := int(requests.Load()); !mayFail && (n == u.count || int(stored.Load()) != u.count) {
		t.Errorf("%d requests for %d uploads, of which %d were stored", n, u.count, stored.Load())
	}
}

// A slowBody reads a little at a time, so that a Read is in progress when the
// response comes.
type slowBody struct {
	*bytes.Reader
	at int64
}

func newSlowBody(data []byte) *slowBody { return &slowBody{Reader: bytes.NewReader(data)} }

func (s *slowBody) Read(p []byte) (int, error) {
	n, err := s.Reader.ReadAt(p, s.at)
	time.Sleep(50 * time.Microsecond)
	s.at += int64(n)
	return n, err
}

func (s *slowBody) Seek(offset int64, whence int) (at int64, err error) {
	s.at, err = s.Reader.Seek(offset, whence)
	return s.at, err
}
