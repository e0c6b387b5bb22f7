package replay

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// shared returns a Body of req's body, and the request of its first attempt.
func shared(req *http.Request, limit int64, once bool) (*Body, *http.Request) {
	b := new(Body)
	b.Own(req)
	b.Plan(limit, once)
	out := req.WithContext(req.Context())
	b.Attach(out)
	return b, out
}

// streamed is shared for a stream that reads r.
func streamed(t *testing.T, r io.Reader, limit int64) (*Body, *http.Request, *httpfake.Body) {
	t.Helper()
	source := httpfake.NewBody(r)
	b, out := shared(httpfake.Request(t, t.Context(), "PUT", source), limit, false)
	return b, out, source
}

func read(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// wantRest fails unless the rest of r is that text.
func wantRest(t *testing.T, r io.Reader, want string) {
	t.Helper()
	if got, err := io.ReadAll(r); string(got) != want || err != nil {
		t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

// wantNothing fails unless a Read of r fails with want, or with any error but
// io.EOF if want is nil.
func wantNothing(t *testing.T, r io.Reader, want error) {
	t.Helper()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF || want != nil && err != want {
		t.Errorf("read %d bytes, %v, want %v", n, err, want)
	}
}

func wantCloses(t *testing.T, b *httpfake.Body, want int) {
	t.Helper()
	if b.Closes() != want || b.ClosesDuringRead() > 0 {
		t.Errorf("closed %d times, %d times during a Read; want %d", b.Closes(), b.ClosesDuringRead(), want)
	}
}

// retry returns the request of b's next attempt.
func retry(t *testing.T, b *Body) *http.Request {
	t.Helper()
	if !b.Replayable() {
		t.Fatal("no retry")
	}
	if _, ok := b.Freeze(t.Context(), time.Second); !ok {
		t.Fatal("not frozen")
	}
	out := b.req.WithContext(t.Context())
	b.Attach(out)
	return out
}

// hanging returns a body that is read until ctx ends.
func hanging(ctx context.Context) *httpfake.Body {
	return httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, io.EOF }))
}
