package httpfake_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

func echo(w http.ResponseWriter, r *http.Request) {
	got, _ := io.ReadAll(r.Body)
	w.Write(got)
}

func TestServe(t *testing.T) {
	want := httpfake.Text(1 << 20)
	put := func(t *testing.T, srv *httpfake.Server, protocol string) {
		resp, err := srv.Base.RoundTrip(srv.Request(t, "PUT", strings.NewReader(want)))
		if err != nil {
			t.Fatal(err)
		}
		if got := httpfake.ReadAll(t, resp); got != want {
			t.Errorf("%d of %d bytes", len(got), len(want))
		}
		if http2 := protocol == "HTTP/2" || protocol == "h2c"; (resp.ProtoMajor == 2) != http2 {
			t.Errorf("the response is %s", resp.Proto)
		}
	}
	for _, protocol := range append(httpfake.Protocols, "h2c") {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, echo)
				put(t, srv, protocol)
				put(t, srv, protocol)
			})
			put(t, httpfake.ServeTCP(t, protocol, echo), protocol)
		})
	}
}

func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := httpfake.Serve(t, "HTTP/1.1", echo)
		srv.Base.ResponseHeaderTimeout = time.Second
		get := func() error {
			resp, err := srv.Base.RoundTrip(srv.Request(t, "GET", nil))
			if err == nil {
				httpfake.ReadAll(t, resp)
			}
			return err
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		srv.Freeze()
		if err := get(); !os.IsTimeout(err) {
			t.Errorf("over the frozen connection: %v", err)
		}
		if err := get(); err != nil {
			t.Errorf("over a new one: %v", err)
		}
	})
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived := make(chan bool)
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-r.Context().Done()
		})
		go func() { <-arrived; srv.Cut() }()
		if _, err := srv.Base.RoundTrip(srv.Request(t, "GET", nil)); err == nil {
			t.Error("no error")
		}
		if from := <-srv.Closed; from != "client:1" {
			t.Errorf("%q was closed", from)
		}
	})
}

func TestStatuses(t *testing.T) {
	base := httpfake.Statuses(503, 200)
	for i, want := range []int{503, 200, 200} {
		body := httpfake.NewBody(strings.NewReader("x"))
		resp, err := base.RoundTrip(httpfake.Request(t, t.Context(), "PUT", body))
		if err != nil || resp.StatusCode != want || body.Closes() != 1 {
			t.Errorf("request %d: %v, %v; its body was closed %d times", i+1, resp, err, body.Closes())
		}
	}
	broken := errors.New("broken")
	body := httpfake.ReadFunc(func([]byte) (int, error) { return 0, broken })
	if resp, err := base.RoundTrip(httpfake.Request(t, t.Context(), "PUT", body)); err != broken {
		t.Errorf("a body that fails: %v, %v", resp, err)
	}
}
