package rows

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"example.com/awsretry"
)

var content = bytes.Repeat([]byte("0123456789abcdef"), 5<<12) // 320 KiB

var azureRow = row{
	client: "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob",
	how: "`ClientOptions.Retry.MaxRetries: -1`, and of every other client on azcore; " +
		"`Policy: awsretry.IdempotentOnly(nil)`, `Peek: awsretry.WholeDocuments`",
	transport: func(tr *awsretry.Transport) {
		tr.Policy, tr.Peek = awsretry.IdempotentOnly(nil), awsretry.WholeDocuments
	},
	keep: 4,
	calls: []call{
		{name: "list", limited: true, server: azureServer, key: azureKey, do: func(ctx context.Context, s setting) error {
			pager, names := newAzure(s).NewListBlobsFlatPager("c", nil), 0
			for pager.More() {
				page, err := pager.NextPage(ctx)
				if err != nil {
					return err
				}
				names += len(page.Segment.BlobItems)
			}
			return unless(names == 2, nil)
		}},
		{name: "upload", server: azureServer, key: azureKey, do: func(ctx context.Context, s setting) error {
			_, err := newAzure(s).UploadBuffer(ctx, "c", "b", content, nil)
			return err
		}},
		{name: "upload of a stream in blocks", server: azureServer, key: azureKey, do: func(ctx context.Context, s setting) error {
			_, err := newAzure(s).UploadStream(ctx, "c", "b", io.NopCloser(bytes.NewReader(content)),
				&azblob.UploadStreamOptions{BlockSize: 100 << 10})
			return err
		}},
		{name: "download", server: azureServer, key: azureKey, do: func(ctx context.Context, s setting) error {
			got := make([]byte, len(content))
			_, err := newAzure(s).DownloadBuffer(ctx, "c", "b", got, nil)
			return unless(bytes.Equal(got, content), err)
		}},
	},
}

func newAzure(s setting) *azblob.Client {
	var options azblob.ClientOptions
	options.Transport = s.Client
	if s.over {
		options.Retry.MaxRetries = -1
	} else {
		options.Retry.TryTimeout = s.limit
	}
	client, err := azblob.NewClientWithNoCredential(s.url, &options)
	if err != nil {
		panic(err) // the URL is a server's of a test
	}
	return client
}

func azureKey(r *http.Request) string {
	return fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.URL.Query().Get("comp"))
}

var modified = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

// azureServer returns a server of a container with two blobs, whose content is that
// of all uploads.
func azureServer() http.HandlerFunc {
	const list = `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="c"><Blobs>` +
		`<Blob><Name>a</Name><Properties/></Blob><Blob><Name>b</Name><Properties/></Blob></Blobs><NextMarker/></EnumerationResults>`
	blocks := map[string][]byte{}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		switch comp := r.URL.Query().Get("comp"); {
		case comp == "list":
			respond(200, "application/xml", list)(w, r)
		case comp == "block":
			blocks[r.URL.Query().Get("blockid")] = body
			w.WriteHeader(201)
		case comp == "blocklist":
			stored := 0
			for _, b := range blocks {
				stored += len(b)
			}
			if stored != len(content) {
				w.WriteHeader(400)
				return
			}
			w.WriteHeader(201)
		case r.Method == http.MethodPut && bytes.Equal(body, content):
			w.WriteHeader(201)
		case r.Method == http.MethodPut:
			w.WriteHeader(400)
		default:
			w.Header().Set("Content-Type", "application/octet-stream")
			if ranges := r.Header.Get("X-Ms-Range"); ranges != "" {
				r.Header.Set("Range", ranges)
			}
			http.ServeContent(w, r, "", modified, bytes.NewReader(content))
		}
	}
}

var storageRow = row{
	client: "cloud.google.com/go/storage",
	how: "`client.SetRetry(storage.WithPolicy(storage.RetryNever))`, " +
		"`Policy: storagePolicy`, `Peek: awsretry.WholeDocuments`, `Resume: true`",
	transport: func(tr *awsretry.Transport) {
		tr.Policy, tr.Peek, tr.Resume = storagePolicy, awsretry.WholeDocuments, true
	},
	timed: true, repeats: "until the context ends",
	once: func(r *http.Request) bool {
		query := r.URL.Query()
		return r.Method != http.MethodGet && !query.Has("ifGenerationMatch") && !query.Has("upload_id")
	},
	calls: []call{
		{name: "attributes", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			attrs, err := b.Object("o").Attrs(ctx)
			return unless(err == nil && attrs.Size == int64(len(content)), err)
		})},
		{name: "list", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			names, it := 0, b.Objects(ctx, nil)
			for {
				_, err := it.Next()
				if errors.Is(err, iterator.Done) {
					return unless(names == 2, nil)
				}
				if err != nil {
					return err
				}
				names++
			}
		})},
		{name: "read", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			r, err := b.Object("o").NewReader(ctx)
			if err != nil {
				return err
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			return unless(bytes.Equal(got, content), err)
		})},
		{name: "delete", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			return b.Object("o").Delete(ctx)
		})},
		{name: "conditional delete", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			return b.Object("o").If(storage.Conditions{GenerationMatch: 1}).Delete(ctx)
		})},
		{name: "upload", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			return upload(ctx, b.Object("o"), 0)
		})},
		{name: "conditional upload", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			return upload(ctx, b.Object("o").If(storage.Conditions{DoesNotExist: true}), 0)
		})},
		{name: "upload in chunks", server: storageServer, key: storageKey, do: onStorage(func(ctx context.Context, b *storage.BucketHandle) error {
			return upload(ctx, b.Object("o"), 256<<10)
		})},
	},
}

func upload(ctx context.Context, o *storage.ObjectHandle, chunk int) error {
	w := o.NewWriter(ctx)
	w.ChunkSize = chunk
	_, err := w.Write(content)
	return errors.Join(err, w.Close())
}

func onStorage(do func(context.Context, *storage.BucketHandle) error) func(context.Context, setting) error {
	return func(ctx context.Context, s setting) error {
		client, err := storage.NewClient(ctx, option.WithHTTPClient(s.Client), option.WithEndpoint(s.url+"/storage/v1/"), storage.WithJSONReads())
		if err != nil {
			return err
		}
		defer client.Close()
		if s.over {
			client.SetRetry(storage.WithPolicy(storage.RetryNever))
		}
		return do(ctx, client.Bucket("b"))
	}
}

// storageKey tells chunks and media from the rest.
func storageKey(r *http.Request) string {
	kind := r.URL.Query().Get("uploadType") + r.URL.Query().Get("alt")
	if r.URL.Query().Has("upload_id") {
		kind = "chunk"
	}
	return fmt.Sprint(r.Method, " ", r.URL.Path, " ", kind)
}

// storageServer returns a server of a bucket with the objects o and p, whose content
// is that of all uploads.
func storageServer() http.HandlerFunc {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
	object := func(name string) string {
		return fmt.Sprintf(`{"kind":"storage#object","name":%q,"bucket":"b","size":"%d","generation":"1","metageneration":"1","crc32c":%q}`,
			name, len(content), base64.StdEncoding.EncodeToString(sum))
	}
	var uploaded []byte
	deleted, created := false, false
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		query := r.URL.Query()
		switch {
		case query.Has("upload_id"):
			var first, last int
			if _, err := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/", &first, &last); err == nil {
				uploaded = append(uploaded[:min(first, len(uploaded))], body...)
			}
			if bytes.Equal(uploaded, content) {
				respond(200, asJSON, object("o"))(w, r)
				return
			}
			header := []string{"X-Http-Status-Code-Override", "308"}
			if len(uploaded) > 0 {
				header = append(header, "Range", fmt.Sprint("bytes=0-", len(uploaded)-1))
			}
			respond(200, asJSON, "", header...)(w, r)
		case query.Get("uploadType") == "resumable":
			respond(200, asJSON, "", "Location", "http://"+r.Host+r.URL.Path+"?uploadType=resumable&upload_id=1")(w, r)
		case query.Get("uploadType") == "multipart":
			if query.Get("ifGenerationMatch") == "0" && created {
				respond(412, asJSON, `{"error":{"code":412}}`)(w, r)
				return
			}
			created = true
			respond(200, asJSON, object("o"))(w, r)
		case r.Method == http.MethodDelete && deleted:
			respond(404, asJSON, `{"error":{"code":404}}`)(w, r)
		case r.Method == http.MethodDelete:
			deleted = true
			w.WriteHeader(204)
		case query.Get("alt") == "media":
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("X-Goog-Generation", "1")
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", modified, bytes.NewReader(content))
		case r.URL.Path == "/storage/v1/b/b/o":
			respond(200, asJSON, `{"kind":"storage#objects","items":[`+object("o")+`,`+object("p")+`]}`)(w, r)
		default:
			respond(200, asJSON, object("o"))(w, r)
		}
	}
}
