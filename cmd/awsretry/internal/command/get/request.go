package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"example.com/awsretry/cmd/internal/cli"
)

// requestFlags describe the request.
type requestFlags struct {
	cli.RequestFlags
	resume bool
}

// make makes the request that the flags describe.
func (f *requestFlags) make(ctx context.Context, u *url.URL, stdin io.Reader) (*http.Request, error) {
	method := http.MethodGet
	if f.Data != nil {
		method = http.MethodPost
	}
	if f.resume {
		switch method := cmp.Or(f.Method.Value, method); {
		case f.Data != nil:
			return nil, errors.New("--resume is for a GET without a body, and --data gives it one")
		case method != http.MethodGet:
			return nil, fmt.Errorf("--resume is for GET, and --method is %q", method)
		}
	}
	req, err := f.Make(ctx, u, method, stdin)
	if err != nil {
		return nil, err
	}
	if _, given := req.Header["Accept-Encoding"]; f.resume && !given { // offsets are those of the bytes that were sent
		req.Header.Set("Accept-Encoding", "identity")
	}
	return req, nil
}
