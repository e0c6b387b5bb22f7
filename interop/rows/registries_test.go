package rows

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/stream"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	orasremote "oras.land/oras-go/v2/registry/remote"
	orasauth "oras.land/oras-go/v2/registry/remote/auth"
	orasretry "oras.land/oras-go/v2/registry/remote/retry"

	"example.com/awsretry"
)

const registryModule = "github.com/google/go-containerregistry"

var pullRow = row{
	client: registryModule, name: "pulls",
	how:       "`remote.WithRetryBackoff(remote.Backoff{Steps: 1})`; `Policy: also(499)`",
	transport: func(tr *awsretry.Transport) { tr.Policy = also(499) },
	keep:      3,
	calls: []call{{name: "pull", server: filledRegistry, key: registryKey, do: func(ctx context.Context, s setting) error {
		options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(s.Transport)}
		if s.over {
			options = append(options, remote.WithRetryBackoff(remote.Backoff{Steps: 1}))
		}
		image, err := remote.Image(imageAt(s.url), options...)
		if err != nil {
			return err
		}
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		blob, err := layers[0].Compressed()
		if err != nil {
			return err
		}
		defer blob.Close()
		got, err := io.ReadAll(blob)
		return unless(bytes.Equal(got, blobContent), err)
	}}},
}

var pushRow = row{
	client: registryModule, name: "pushes",
	how: "`remote.WithRetryStatusCodes()`, `remote.WithRetryPredicate(uploadAgain)`; " +
		"`Policy: leaving(uploads, also(499))`",
	transport: func(tr *awsretry.Transport) { tr.Policy = leaving(uploads, also(499)) },
	keep:      3,
	calls: []call{
		{name: "push", server: emptyRegistry, key: registryKey, do: func(ctx context.Context, s setting) error {
			image, err := mutate.AppendLayers(empty.Image, static.NewLayer(blobContent, types.OCILayer))
			if err != nil {
				return err
			}
			return remote.Write(imageAt(s.url), image, pushing(ctx, s)...)
		}},
		{name: "push of a stream", server: emptyRegistry, key: registryKey, do: func(ctx context.Context, s setting) error {
			layer := stream.NewLayer(io.NopCloser(bytes.NewReader(blobContent)))
			return remote.WriteLayer(imageAt(s.url).Context(), layer, pushing(ctx, s)...)
		}},
	},
}

func pushing(ctx context.Context, s setting) []remote.Option {
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(s.Transport), remote.WithJobs(1)}
	if s.over {
		options = append(options, remote.WithRetryStatusCodes(), remote.WithRetryPredicate(uploadAgain))
	}
	return options
}

var blobContent = bytes.Repeat([]byte("blob "), 2000)

// imageAt returns the reference of the image of a registry.
func imageAt(registryURL string) name.Reference {
	ref, err := name.ParseReference(strings.TrimPrefix(registryURL, "http://")+"/r/image:tag", name.Insecure)
	if err != nil {
		panic(err) // the URL is a server's of a test
	}
	return ref
}

func emptyRegistry() http.HandlerFunc {
	return registry.New(registry.Logger(log.New(io.Discard, "", 0))).ServeHTTP
}

// filledRegistry returns a registry that has the image.
func filledRegistry() http.HandlerFunc {
	serve := emptyRegistry()
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(blobContent, types.OCILayer))
	if err == nil {
		err = remote.Write(imageAt("http://registry.test"), image, remote.WithTransport(handlerTripper(serve)))
	}
	if err != nil {
		panic(err) // the registry is in this process
	}
	return serve
}

// A handlerTripper sends requests to a handler.
type handlerTripper http.HandlerFunc

func (h handlerTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	w, received := httptest.NewRecorder(), req.Clone(req.Context())
	if received.Body == nil {
		received.Body = http.NoBody
	}
	h(w, received)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// registryKey names a request without the number of an upload.
func registryKey(r *http.Request) string {
	path := r.URL.Path
	if before, _, ok := strings.Cut(path, "/uploads/"); ok {
		path = before + "/uploads/"
	}
	if before, _, ok := strings.Cut(path, "sha256:"); ok {
		path = before + "digest"
	}
	return fmt.Sprint(r.Method, " ", path)
}

var orasRow = row{
	client:    "oras.land/oras-go/v2",
	how:       "`auth.Client{Client: &http.Client{Transport: t}}`, without its `retry.NewTransport`; `Policy: also(501, 505, 506, 507, 508, 510, 511)`",
	transport: func(tr *awsretry.Transport) { tr.Policy = also(501, 505, 506, 507, 508, 510, 511) },
	keep:      6,
	calls: []call{
		{name: "resolve", server: filledRegistry, key: registryKey, do: onRepository(func(ctx context.Context, r *orasremote.Repository) error {
			_, err := r.Resolve(ctx, "tag")
			return err
		})},
		{name: "pull", limited: true, server: filledRegistry, key: registryKey, do: onRepository(func(ctx context.Context, r *orasremote.Repository) error {
			_, body, err := r.Blobs().FetchReference(ctx, digest.FromBytes(blobContent).String())
			if err != nil {
				return err
			}
			defer body.Close()
			got, err := io.ReadAll(body)
			return unless(bytes.Equal(got, blobContent), err)
		})},
		{name: "push", server: emptyRegistry, key: registryKey, do: onRepository(func(ctx context.Context, r *orasremote.Repository) error {
			return r.Push(ctx, blobDescriptor, bytes.NewReader(blobContent))
		})},
		{name: "push of a stream", server: emptyRegistry, key: registryKey, do: onRepository(func(ctx context.Context, r *orasremote.Repository) error {
			return r.Push(ctx, blobDescriptor, struct{ io.Reader }{bytes.NewReader(blobContent)})
		})},
	},
}

var blobDescriptor = ocispec.Descriptor{
	MediaType: "application/octet-stream", Digest: digest.FromBytes(blobContent), Size: int64(len(blobContent)),
}

func onRepository(do func(context.Context, *orasremote.Repository) error) func(context.Context, setting) error {
	return func(ctx context.Context, s setting) error {
		if !s.over {
			s.Client = &http.Client{Transport: orasretry.NewTransport(s.Transport), Timeout: s.limit}
		}
		r, err := orasremote.NewRepository(strings.TrimPrefix(s.url, "http://") + "/r/image")
		if err != nil {
			return err
		}
		r.PlainHTTP, r.Client = true, &orasauth.Client{Client: s.Client}
		return do(ctx, r)
	}
}
