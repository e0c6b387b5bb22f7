package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// The attempt's time-out does not cut off a response while DeadLetter runs.
func TestSlowDeadLetterKeepsTheResponseWhole(t *testing.T) {
	for size, took := range map[int]time.Duration{maxReadAhead: time.Hour, maxReadAhead + 1: 0} {
		run(t, strconv.Itoa(size), func(t *testing.T) {
			trailer := http.Header{}
			text := strings.NewReader(strings.Repeat("x", size))
			var response *httpfake.Body
			tr := &Transport{
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					response = httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
						if err := req.Context().Err(); err != nil {
							return 0, err
						}
						n, err := text.Read(p)
						if err == io.EOF {
							trailer.Set("X", "y")
						}
						return n, err
					}))
					resp := respond(404, req)
					resp.Body, resp.Trailer = response, trailer
					return resp, nil
				}),
				DeadLetter: func(context.Context, DeadLetter) error { time.Sleep(took); return nil },
			}
			resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || len(body) != size || resp.Trailer.Get("X") != "y" {
				t.Errorf("%d bytes of %d, trailer %v, %v", len(body), size, resp.Trailer, err)
			}
			if resp.Body.Close(); response.Closes() != 1 {
				t.Errorf("the response was closed %d times", response.Closes())
			}
		})
	}
}

// A response whose body breaks off is returned as it came. That of a 101, a
// connection that changed hands, is not read.
func TestBrokenResponseAndUpgrade(t *testing.T) {
	broken := errors.New("connection reset")
	for _, status := range []int{404, 101} {
		run(t, strconv.Itoa(status), func(t *testing.T) {
			body := httpfake.NewBody(io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)))
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				resp := respond(status, req)
				resp.Body = body
				if status == 101 {
					resp.Body = struct {
						io.ReadCloser
						io.Writer
					}{resp.Body, &bytes.Buffer{}}
				}
				return resp, nil
			})
			resp, err := (&Transport{DeadLetter: readIt, Base: base}).RoundTrip(post(t, "http://a.example/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, ok := resp.Body.(io.Writer); status == 101 && (!ok || body.Reads() > 0) {
				t.Errorf("the body is a %T, and was read %d times", resp.Body, body.Reads())
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != broken {
				t.Errorf("read %q, %v", body, err)
			}
		})
	}
}
