package clients

//lint:file-ignore SA1019 the successor of feature/s3/manager has no stable version

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/interop/internal/peers"
	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	mebibyte     = 1 << 20
	downloadSize = 2 * mebibyte // of the object
)

// A fragileService has an object whose responses break off. It accepts requests
// that are not signed, or that are signed as AWS demands.
type fragileService struct {
	t        *testing.T
	versions [][]byte                      // of the object; another request gets the next one, the last from then on
	whole    func(request, length int) int // bytes that are sent of a response with length bytes

	mu       sync.Mutex // guards the fields below
	requests int
	sent     int  // bytes of bodies
	unread   bool // a client has closed a body before its end, or will
}

func (s *fragileService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	signature := &sigService{t: s.t, service: "s3"}
	if code := signature.judge(r, nil); code != "" && r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
		return
	}
	s.mu.Lock()
	if r.Method != http.MethodHead {
		s.requests++
	}
	request := max(s.requests, 1)
	version := min(request, len(s.versions))
	etag := fmt.Sprintf(`"v%d"`, version)
	// Who asked for the rest of another version does not want this one, though
	// it may be sent before that is known.
	s.unread = s.unread || r.Header.Get("If-Range") != "" && r.Header.Get("If-Range") != etag
	s.mu.Unlock()
	w.Header().Set("Etag", etag)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&fragileWriter{w, s, request, -1}, r, "", time.Time{}, bytes.NewReader(s.versions[version-1]))
}

// A fragileWriter fails when what is to be sent of a response is sent. The
// server then closes the connection.
type fragileWriter struct {
	http.ResponseWriter
	service *fragileService
	request int
	left    int // -1: nothing is sent yet
}

func (w *fragileWriter) Write(p []byte) (int, error) {
	if w.left < 0 {
		var length int
		fmt.Sscan(w.Header().Get("Content-Length"), &length)
		w.left = w.service.whole(w.request, length)
	}
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	w.left -= n
	w.service.mu.Lock()
	w.service.sent += n
	w.service.unread = w.service.unread || err != nil
	w.service.mu.Unlock()
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// A downloader reads the object at a URL. It returns what it received.
type downloader func(ctx context.Context, base http.RoundTripper, addr string) ([]byte, error)

// overHTTP reads the object with a client of package net/http.
func overHTTP(wrap peers.Wrap) downloader {
	return func(_ context.Context, base http.RoundTripper, addr string) ([]byte, error) {
		text, err := kit.Text((&http.Client{Transport: wrap(base)}).Get("http://" + addr + "/interop/object"))
		return []byte(text), err
	}
}

// withGetObject reads the object with the SDK's client for S3.
func withGetObject(wrap peers.Wrap, retryer aws.Retryer) downloader {
	return func(ctx context.Context, base http.RoundTripper, addr string) ([]byte, error) {
		out, err := newS3(addr, wrap(base), retryer).GetObject(ctx, objectInput())
		if err != nil {
			return nil, err
		}
		defer out.Body.Close()
		return io.ReadAll(out.Body)
	}
}

// withManager reads the object in parts of 1 MiB.
func withManager(ctx context.Context, base http.RoundTripper, addr string) ([]byte, error) {
	downloader := manager.NewDownloader(newS3(addr, base, sdkRetryer()), func(d *manager.Downloader) {
		d.PartSize = mebibyte
	})
	w := manager.NewWriteAtBuffer(make([]byte, downloadSize))
	n, err := downloader.Download(ctx, w, objectInput())
	return w.Bytes()[:n], err
}

// ranges makes a client of package transfermanager ask for ranges of 1 MiB, one
// after the other.
func ranges(o *transfermanager.Options) {
	o.PartSizeBytes, o.GetObjectType, o.Concurrency = mebibyte, types.GetObjectRanges, 1
}

// withTransferManager reads the object with the successor of the manager: into
// memory, or as a stream of its parts.
func withTransferManager(wrap peers.Wrap, stream bool) downloader {
	return func(ctx context.Context, base http.RoundTripper, addr string) ([]byte, error) {
		client := transfermanager.New(newS3(addr, wrap(base), sdkRetryer()), ranges)
		bucket, key := aws.String(s3Bucket), aws.String("object")
		if stream {
			out, err := client.GetObject(ctx, &transfermanager.GetObjectInput{Bucket: bucket, Key: key})
			if err != nil {
				return nil, err
			}
			return io.ReadAll(out.Body)
		}
		w := manager.NewWriteAtBuffer(make([]byte, downloadSize))
		out, err := client.DownloadObject(ctx,
			&transfermanager.DownloadObjectInput{Bucket: bucket, Key: key, WriterAt: w})
		if err != nil {
			return nil, err
		}
		return w.Bytes()[:aws.ToInt64(out.ContentLength)], nil
	}
}

func objectInput() *s3.GetObjectInput {
	return &s3.GetObjectInput{Bucket: aws.String(s3Bucket), Key: aws.String("object")}
}

func resume(tr *awsretry.Transport) { tr.Resume = true }

// signed signs each attempt, with the Range that it has.
func signed(tr *awsretry.Transport) { tr.Prepare = sign("s3") }

func bare(b http.RoundTripper) http.RoundTripper { return b }

// Bodies of 2 MiB that break off, and what each library makes of them. It writes
// docs/results/downloads.md.
func TestPeersResume(t *testing.T) {
	first := kit.Random(downloadSize, downloadSize)
	second := bytes.Repeat([]byte("changed "), downloadSize/8)
	atHalf := func(request, length int) int {
		if request == 1 {
			return length / 2
		}
		return length
	}
	scenes := []struct {
		name     string
		versions [][]byte
		whole    func(request, length int) int
	}{
		{"the first response breaks off at half", [][]byte{first}, atHalf},
		{"every response, after 256 KiB", [][]byte{first}, func(_, length int) int { return min(length, mebibyte/4) }},
		{"the first, and the object changes", [][]byte{first, second}, atHalf},
	}
	clients := []struct {
		name string
		get  downloader
	}{
		{name: "go-retryablehttp", get: overHTTP(peers.Retryablehttp())},
		{name: "rehttp", get: overHTTP(peers.Rehttp(2,
			rehttp.RetryIsErr(func(err error) bool { return err != nil }), rehttp.ConstDelay(time.Second)))},
		{name: "failsafe-go", get: overHTTP(peers.Failsafe())},
		{name: "AWS SDK, `GetObject`", get: withGetObject(bare, sdkRetryer())},
		{name: "AWS SDK, `manager.Downloader`, `PartSize: 1 << 20`", get: withManager},
		{name: "AWS SDK, `transfermanager`, `DownloadObject`", get: withTransferManager(bare, false)},
		{name: "AWS SDK, `transfermanager`, `GetObject`", get: withTransferManager(bare, true)},
		{name: "awsretry", get: overHTTP(peers.Awsretry())},
		{name: "awsretry, `Resume`", get: overHTTP(peers.Awsretry(resume))},
		{name: "AWS SDK, `GetObject`, over awsretry, `Resume`", get: withGetObject(peers.Awsretry(resume), sdkRetryer())},
		{name: "AWS SDK, `transfermanager`, `DownloadObject`, over awsretry, `Resume`, `Prepare`",
			get: withTransferManager(peers.Awsretry(resume, signed), false)},
		{name: "AWS SDK, `transfermanager`, `GetObject`, over awsretry, `Resume`, `Prepare`",
			get: withTransferManager(peers.Awsretry(resume, signed), true)},
	}
	var table strings.Builder
	table.WriteString("\n|")
	for _, scene := range scenes {
		table.WriteString(" | " + scene.name)
	}
	table.WriteString(" |\n|---|---|---|---|\n")
	for _, client := range clients {
		table.WriteString("| " + client.name)
		for _, scene := range scenes {
			synctest.Test(t, func(t *testing.T) {
				service := &fragileService{t: t, versions: scene.versions, whole: scene.whole}
				server := httpfake.Serve(t, "HTTP/1.1", service.ServeHTTP)
				got, err := client.get(t.Context(), server.Base, kit.HostOf(t, server.URL))
				synctest.Wait() // the service has counted
				table.WriteString(" | " + service.summary(got, err))
			})
		}
		table.WriteString(" |\n")
	}
	page := kit.Page{File: "downloads.md", Title: "When a download breaks off", By: "interop/clients TestPeersResume"}
	page.Check(t, table.String())
}

// summary returns what a client received, and what it took.
func (s *fragileService) summary(got []byte, err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := "1 request"
	if s.requests > 1 {
		requests = fmt.Sprint(s.requests, " requests")
	}
	switch {
	case s.versionOf(got) == 0:
		return "**a mixture**; " + requests
	case err != nil: // the service may have sent more, which nobody has read
		return fmt.Sprintf("%s, `%s`; %s", inKibibytes(len(got)), reasonOf(err), requests)
	}
	if s.unread {
		return "**all**; " + requests
	}
	return fmt.Sprintf("**all**; %s, %s sent", requests, inKibibytes(s.sent))
}

// versionOf returns the version whose beginning got is, 0 for none.
func (s *fragileService) versionOf(got []byte) int {
	for i, version := range s.versions {
		if bytes.HasPrefix(version, got) {
			return i + 1
		}
	}
	return 0
}

// reasonOf returns what an error says in the end.
func reasonOf(err error) string {
	if e := (*awsretry.Error)(nil); errors.As(err, &e) {
		_, text, _ := strings.Cut(e.Err.Error(), " bytes: ")
		text, _, _ = strings.Cut(text, ": ")
		return text
	}
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return text
}

func inKibibytes(n int) string { return fmt.Sprint(float64(n)/1024, " KiB") }
