package contract_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Outcome has the record of a response that took a retry, or that is a failure,
// also through an http.Client. A request that continues with the context of such a
// response has none.
func TestOutcome(t *testing.T) {
	for name, tt := range map[string]struct {
		base  []outcome
		want  bool
		class awsretry.Class
	}{
		"first try": {[]outcome{ok}, false, awsretry.Success},
		"permanent": {[]outcome{invalid}, true, awsretry.Permanent},
		"retried":   {[]outcome{busy, ok}, true, awsretry.Success},
		"throttled": {[]outcome{busy, busy, throttled}, true, awsretry.Throttled},
	} {
		for _, byClient := range []bool{false, true} {
			var rt http.RoundTripper = retrying(inTurn(tt.base...))
			if byClient {
				client := &http.Client{Transport: rt, Timeout: time.Minute}
				rt = httpfake.Base(client.Do)
			}
			resp := sendGet(t, rt).response(t)
			record, ok := awsretry.Outcome(resp)
			if ok != tt.want || record.Class != tt.class || ok && !byClient && record.Response != resp {
				t.Errorf("%s: %+v, %v", name, record, ok)
			}
			next := send(once(httpfake.Statuses(200)), httpfake.Request(t, resp.Request.Context(), "GET", nil))
			if _, ok := awsretry.Outcome(next.Response); ok {
				t.Errorf("%s: the outcome stayed in the context", name)
			}
		}
	}
	for _, resp := range []*http.Response{nil, {}} {
		if _, ok := awsretry.Outcome(resp); ok {
			t.Errorf("%+v has an outcome", resp)
		}
	}
}

// AttemptNumber counts from 1 for each request, also for one that continues with
// the context of a response.
func TestAttemptNumber(t *testing.T) {
	var got []int
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		got = append(got, awsretry.AttemptNumber(req.Context()))
		return httpfake.Response(req, 503, http.NoBody), nil
	})
	r := sendGet(t, tr)
	send(tr, httpfake.Request(t, r.Request.Context(), "GET", nil)).wantBody(t, "")
	if want := []int{1, 2, 3, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := awsretry.AttemptNumber(context.Background()); n != 1 {
		t.Errorf("outside of an attempt: %d", n)
	}
}

// An observer sees when each attempt began and how long it took.
func TestObservedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, sends := time.Now(), 0
		tr := &transport{Backoff: noJitter, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			sends++
			time.Sleep(time.Duration(sends) * 100 * time.Millisecond)
			return httpfake.Response(req, 503, http.NoBody), nil
		})}
		var got []string
		ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) {
			got = append(got, a.Start.Sub(start).String()+" "+a.Elapsed.String())
		})
		send(tr, httpfake.Request(t, ctx, "GET", nil)).wantBody(t, "")
		if want := []string{"0s 100ms", "1.1s 200ms", "3.3s 300ms"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A status with which a proxy responds to CONNECT comes as an error. It has the
// class and the costs of a response with that status, and limits the send rate
// as that does.
func TestStatusOfAProxy(t *testing.T) {
	type effects struct {
		classes []awsretry.Class
		stop    awsretry.Stop
		tokens  int
		limited bool
	}
	effectsOf := func(t *testing.T, base http.RoundTripper) (e effects) {
		tr := &transport{Base: base, Mode: awsretry.Adaptive, Backoff: delayed(time.Second)}
		tr.Observe = func(a awsretry.Attempt) { e.classes = append(e.classes, a.Class) }
		req := httpfake.Request(t, t.Context(), "GET", nil)
		req.URL.Scheme = "https"
		r := send(tr, req)
		if r.err == nil {
			r.Body.Close()
		}
		state, _ := tr.State("service.example")
		e.stop, e.tokens, e.limited = r.stop, state.Tokens, state.Limited
		return e
	}
	for status := 400; status < 600; status++ {
		inBubble(t, fmt.Sprint(status), func(t *testing.T) {
			proxy := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			at, _ := url.Parse(proxy.URL)
			proxy.Base.Proxy = http.ProxyURL(at)
			got, want := effectsOf(t, proxy.Base), effectsOf(t, httpfake.Statuses(status))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
