package contract_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A small document that breaks off is sent again if that is safe, and otherwise the
// error says that it may have been executed. Of any other response nothing is read.
func TestWholeDocuments(t *testing.T) {
	const small, longest = 100, 64 << 10
	documents := map[string]bool{
		"application/json": true, "Application/JSON; charset=utf-8": true, "text/xml": true, "application/xml": true,
		"application/problem+json": true, "application/atom+xml ;v=1": true,
		"": false, "text/event-stream": false, "application/x-ndjson": false, "application/stream+json": false,
		"application/json-seq": false, "application/vnd.amazon.eventstream": false, "text/plain": false, "json": false,
		"application/jsonl": false, "application/octet-stream": false,
	}
	keyed := func(req *http.Request) { req.Header.Set("Idempotency-Key", "k") }
	for _, call := range []struct {
		name   string
		method string
		change func(*http.Request)
		policy awsretry.Policy
		safe   bool
	}{
		{"GET", "GET", nil, awsretry.IdempotentOnly(nil), true},
		{"POST", "POST", nil, awsretry.IdempotentOnly(nil), false},
		{"POST with a key", "POST", keyed, awsretry.IdempotentOnly(nil), true},
		{"POST by the default policy", "POST", nil, nil, true},
	} {
		for kind, document := range documents {
			for _, length := range []int64{-1, small, longest, longest + 1} {
				for _, coding := range []string{"", "gzip"} {
					inBubble(t, fmt.Sprint(call.name, " of ", kind, " ", length, coding), func(t *testing.T) {
						text := httpfake.Text(int(max(length, small)))
						if coding != "" {
							text = strings.Join(httpfake.Compressed(coding, text), "")
						}
						sent, reads := 0, 0
						tr := retrying(func(req *http.Request) (*http.Response, error) {
							var r io.Reader = strings.NewReader(text)
							if sent++; sent == 1 {
								r = io.MultiReader(strings.NewReader(text[:len(text)-1]), iotest.ErrReader(io.ErrUnexpectedEOF))
							}
							counted := httpfake.ReadFunc(func(p []byte) (int, error) { reads++; return r.Read(p) })
							resp := httpfake.Response(req, 200, io.NopCloser(counted), "Content-Type", kind, "Content-Encoding", coding)
							if resp.ContentLength = -1; length > 0 {
								resp.ContentLength = int64(len(text))
							}
							return resp, nil
						})
						tr.Peek, tr.Policy = awsretry.WholeDocuments, call.policy
						req := httpfake.Request(t, t.Context(), call.method, nil)
						if call.change != nil {
							call.change(req)
						}
						whole := document && 0 < length && len(text) <= longest
						r := send(tr, req)
						if whole && !call.safe {
							r.want(t, 0, awsretry.StopPermanent, 0)
							if e := (*awsretry.Error)(nil); !errors.As(r.err, &e) || !e.MaybeExecuted || sent != 1 {
								t.Errorf("%v after %d requests; want one that may have been executed", r.err, sent)
							}
							return
						}
						resp := r.response(t)
						if !whole && (reads > 0 || r.took >= time.Millisecond) {
							t.Errorf("the body was read %d times in %v before the response was returned", reads, r.took)
						}
						got, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						if broken := err != nil; broken == whole || whole && (string(got) != text || sent != 2) {
							t.Errorf("read %d bytes of %d, %v, after %d requests", len(got), len(text), err, sent)
						}
					})
				}
			}
		}
	}
}
