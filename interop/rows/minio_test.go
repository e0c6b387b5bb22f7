package rows

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.com/awsretry"
)

const minioModule = "github.com/minio/minio-go/v7"

var minioRow = row{
	client:    minioModule,
	how:       "its retries stay on; `MaxAttempts: 1`",
	transport: func(tr *awsretry.Transport) { tr.MaxAttempts = 1 },
	calls:     minioCalls(minio.Options{}),
	scenes:    minioScenes,
}

var minioOffRow = row{
	client: minioModule, name: "with the rules of awsretry",
	how:       "`minio.Options{MaxRetries: 1, Region: …}`, without which a bucket elsewhere fails; `Policy: also(499)`, `MaxBodyBuffer: 64 << 20` for its parts of 16 MiB",
	transport: func(tr *awsretry.Transport) { tr.Policy, tr.MaxBodyBuffer = also(499), 64<<20 },
	calls:     minioCalls(minio.Options{MaxRetries: 1, Region: "us-east-1"}),
	scenes:    minioScenes,
	losses: []loss{
		{"an `ExpiredToken` ends the call", `an expired token: (fails|DELETE)`},
	},
}

var minioScenes = []scene{
	{name: "an expired token", times: 1, fault: s3Error("ExpiredToken", "")},
	{name: "another region", times: 1, fault: s3Error("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")},
	{name: "SlowDownWrite", times: 1, fault: s3Error("SlowDownWrite", "")},
	{name: "RequestTimeout", times: 1, fault: s3Error("RequestTimeout", "")},
}

// s3Error returns a fault that responds with an error of Amazon S3.
func s3Error(code, more string) fault {
	status := http.StatusBadRequest
	if strings.HasPrefix(code, "SlowDown") {
		status = http.StatusServiceUnavailable
	}
	handle := respond(status, "application/xml", "<Error><Code>"+code+"</Code>"+more+"</Error>")
	return func(w http.ResponseWriter, r *http.Request, _ *network, _ http.HandlerFunc) { handle(w, r) }
}

// minioCalls returns calls of clients that have these options over a Transport.
func minioCalls(over minio.Options) []call {
	on := func(do func(context.Context, *minio.Client) error) func(context.Context, setting) error {
		return func(ctx context.Context, s setting) error {
			options := minio.Options{Region: over.Region}
			if s.over {
				options = over
			}
			options.Creds, options.Transport = credentials.NewStaticV4("id", "secret", ""), s.Transport
			options.UploadLimits = &minio.UploadLimits{MinPartSize: 1 << 20}
			client, err := minio.New(strings.TrimPrefix(s.url, "http://"), &options)
			if err != nil {
				return err
			}
			return do(ctx, client)
		}
	}
	return []call{
		{name: "stat", server: s3Server, key: s3Key, do: on(func(ctx context.Context, c *minio.Client) error {
			info, err := c.StatObject(ctx, "bucket", "object", minio.StatObjectOptions{})
			return unless(info.Size == int64(len(s3Content)), err)
		})},
		{name: "get", server: s3Server, key: s3Key, do: on(func(ctx context.Context, c *minio.Client) error {
			object, err := c.GetObject(ctx, "bucket", "object", minio.GetObjectOptions{})
			if err != nil {
				return err
			}
			defer object.Close()
			got, err := io.ReadAll(object)
			return unless(bytes.Equal(got, s3Content), err)
		})},
		{name: "put", server: s3Server, key: s3Key, do: on(func(ctx context.Context, c *minio.Client) error {
			_, err := c.PutObject(ctx, "bucket", "new", bytes.NewReader(s3Content), int64(len(s3Content)), minio.PutObjectOptions{})
			return err
		})},
		{name: "put of a stream in parts", server: s3Server, key: s3Key, do: on(func(ctx context.Context, c *minio.Client) error {
			long := io.LimitReader(zeros{}, 5<<19)
			_, err := c.PutObject(ctx, "bucket", "new", long, 5<<19, minio.PutObjectOptions{PartSize: 3 << 19, NumThreads: 1})
			return err
		})},
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

var s3Content = []byte("content")

var s3Meta = map[string]string{"Content-Type": "text/plain", "Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT"}

func s3Server() http.HandlerFunc {
	backend := s3mem.New()
	err := backend.CreateBucket("bucket")
	if err == nil {
		_, err = backend.PutObject("bucket", "object", s3Meta, bytes.NewReader(s3Content), int64(len(s3Content)), nil)
	}
	if err != nil {
		panic(err) // it is in memory
	}
	return gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server().ServeHTTP
}

// s3Key names a request without the number of its upload.
func s3Key(r *http.Request) string {
	query := r.URL.Query()
	if query.Has("uploadId") {
		query.Set("uploadId", "")
	}
	return fmt.Sprint(r.Method, " ", r.URL.Path, "?", query.Encode())
}
