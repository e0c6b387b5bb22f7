package interop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A server refuses a stream, or goes away, while the caller is still writing
// the body. No byte of the body is lost.
func TestRefusedWhileWriting(t *testing.T) {
	for name, refuse := range map[string]func(*h2Stream){
		"REFUSED_STREAM": (*h2Stream).refuse,
		"GOAWAY":         (*h2Stream).goAwayBefore,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := startFrames(t, true, refuse, (*h2Stream).echo)
				pr, caller := io.Pipe()
				body := httpfake.NewBody(pr)
				go func() {
					defer caller.Close()
					synctest.Wait() // the refusal has arrived
					if bodies, _ := server.seen(); len(bodies) == 0 || !body.Reading() {
						t.Error("no Read is under way")
					}
					for _, piece := range []string{"one ", "two ", "three ", "four"} {
						io.WriteString(caller, piece)
					}
				}()
				resp, err := retrying(server.pool).
					RoundTrip(newRequest(t, t.Context(), http.MethodPost, framesURL, body))
				if err != nil {
					t.Fatal(err)
				}
				if got := httpfake.ReadAll(t, resp); got != "one two three four" {
					t.Errorf("%q came back", got)
				}
			})
		})
	}
}

// A server refuses all streams until the deadline. Meanwhile, net/http waits
// with the next copy of the body, which it then drops.
func TestRefusedUntilDeadline(t *testing.T) {
	short := content[:1000]
	for _, kind := range []bodyKind{
		{name: "stream", content: short, hasLength: true, open: func(testing.TB) io.Reader { return streamOf(short) }},
		fileOf(short),
	} {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := startFrames(t, false, (*h2Stream).refuse)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				req, body := kind.request(t, ctx, framesURL)
				if _, err := retrying(server.pool).RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				wantClosedOnce(t, body)
				if bodies, _ := server.seen(); len(bodies) < 2 {
					t.Errorf("the server refused %d streams, want 2 or more", len(bodies))
				}
			})
		})
	}
}

// A Base may close the request body before it sends the request, as the HTTP/2
// of net/http does if it finds a connection unusable.
func TestClosedBeforeSending(t *testing.T) {
	srv := httpfake.Serve(t, "h2c", echo)
	for _, kind := range oneShot {
		t.Run(kind.name, func(t *testing.T) {
			tr := retrying(httpfake.Base(func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				return srv.Base.RoundTrip(req)
			}))
			req, body := kind.request(t, t.Context(), srv.URL)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := httpfake.ReadAll(t, resp); got != string(kind.content) {
				t.Errorf("%d bytes came back of %d", len(got), len(kind.content))
			}
			wantClosedOnce(t, body)
		})
	}
}

// A caller writes a message and waits for the response before it writes more.
// If the connection breaks, the body cannot be sent again: a Read of it is
// under way, which may last forever.
func TestBrokenConversation(t *testing.T) {
	const message = "a message"
	for name, close := range map[string]func(io.Reader) io.Reader{
		"pipe": func(r io.Reader) io.Reader { return r },
		"body whose Close does not end a Read": func(r io.Reader) io.Reader {
			return struct{ io.Reader }{r}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, "h2c", func(w http.ResponseWriter, r *http.Request) {
					io.ReadFull(r.Body, make([]byte, len(message)))
					<-r.Context().Done()
				})
				pr, caller := io.Pipe()
				defer caller.Close()
				go io.WriteString(caller, message)
				body := httpfake.NewBody(close(pr))
				tr := retrying(srv.Base)
				go func() {
					synctest.Wait() // a Read waits for more
					if !body.Reading() {
						t.Error("no Read is under way")
					}
					srv.Cut()
				}()
				start := time.Now()
				_, err := tr.RoundTrip(srv.Request(t, http.MethodPost, body))
				var failure *awsretry.Error
				if !errors.As(err, &failure) || failure.Stop != awsretry.StopBody || failure.Attempts != 1 {
					t.Errorf("the error is %v, want one with StopBody after 1 attempt", err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("RoundTrip returned %v after the connection broke", took)
				}
				caller.Close() // ends the Read, after which the body is closed
				synctest.Wait()
				wantClosedOnce(t, body)
			})
		})
	}
}

// A server responds while a Read of the body hangs that no Close ends. GetBody
// may rewind the reader of that Read, so that there is no retry.
func TestBlockedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		respond := failOnce(echo)
		srv := httpfake.Serve(t, "h2c", func(w http.ResponseWriter, r *http.Request) {
			synctest.Wait() // until the Read hangs
			respond(w, r)
		})
		blocked, caller := io.Pipe()
		defer caller.Close()
		req := srv.Request(t, http.MethodPut, struct{ io.Reader }{blocked})
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("sent again")), nil }
		resp, err := retrying(srv.Base).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if last, _ := awsretry.Outcome(resp); resp.StatusCode != 503 || last.Stop != awsretry.StopBody {
			t.Errorf("%d with %q, want 503 with StopBody", resp.StatusCode, last.Stop)
		}
		httpfake.ReadAll(t, resp)
	})
}
