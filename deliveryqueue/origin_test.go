package deliveryqueue

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

func TestEndpointOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://h.test/path?q": "https://h.test", "https://h.test:443": "https://h.test", "https://h.test:0443": "https://h.test",
		"https://H.Test.:": "https://h.test", "HTTP://h.test:80": "http://h.test", "http://h.test:443": "http://h.test:443",
		"https://u:p@h.test:8443": "https://h.test:8443", "http://[::1]:80": "http://[::1]", "http://[0:0::1]:81": "http://[::1]:81",
		"http://127.0.0.1:80": "http://127.0.0.1",
	} {
		if got := endpointOf(must[*url.URL](t)(url.Parse(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// However an origin is spelled, it is one endpoint.
func TestOneOriginIsOneEndpoint(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		const name = "https://h.test"
		spelled := []string{name, name + ":443", name + ".", "https://H.test:443"}
		q := open(t, store, Config{Base: httpfake.Statuses(204)})
		for _, url := range spelled {
			enqueue(t, q, post(t, url, "hello"), Options{})
		}
		want := Endpoint{URL: name, Waiting: len(spelled)}
		only := func(q *Queue) Endpoint {
			t.Helper()
			all := must[[]Endpoint](t)(q.Endpoints(t.Context()))
			if len(all) != 1 {
				t.Fatalf("%+v", all)
			}
			return all[0]
		}
		if want.Due = only(q).Due; only(q) != want {
			t.Errorf("%+v", only(q))
		}

		check(t, q.Pause(t.Context(), "https://H.test:443"))
		if e := only(q); e.Paused.IsZero() || e.Waiting != len(spelled) {
			t.Errorf("after Pause: %+v", e)
		}
		var names []string
		for _, f := range spelled {
			for _, d := range list(t, q, Filter{Endpoint: f, Limit: 1}) {
				names = append(names, d.Method)
			}
		}
		if !reflect.DeepEqual(names, []string{"POST", "POST", "POST", "POST"}) {
			t.Errorf("by the spellings, %q are listed", names)
		}
		check(t, q.Resume(t.Context(), "https://h.test.:443"))
		start(t, q)
		waitFor(t, q, Stats{Delivered: len(spelled)})
	})
}

// A Filter's endpoint is checked like that of Pause.
func TestFilterRefuses(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{})
	for _, bad := range []string{"https://h.test?q", "ftp://h.test", "https://:443", "https://u@h.test"} {
		f := Filter{Endpoint: bad}
		var listed error
		for _, err := range q.List(t.Context(), f) {
			listed = err
		}
		_, redriven := q.Redrive(t.Context(), f)
		_, canceled := q.CancelAll(t.Context(), f)
		for _, err := range []error{listed, redriven, canceled, q.Pause(t.Context(), bad)} {
			if err == nil || !strings.Contains(err.Error(), "must be a scheme and a host") {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
}

// Deliveries with the same Options.Endpoint are sent to one endpoint, whatever their
// URLs are, and one that asks to wait does not stop others with the same host.
func TestNamedEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
			if strings.HasPrefix(req.URL.Path, "/a") {
				return httpfake.Response(req, 429, http.NoBody, "Retry-After", "3600"), req.Body.Close()
			}
			return httpfake.Empty(204, req), req.Body.Close()
		})
		q := open(t, store, Config{Base: base})
		const host, a, b = "https://hooks.test", "customer a", "https://hooks.test/b"
		add := func(path, endpoint string) { enqueue(t, q, post(t, host+path, "hello"), Options{Endpoint: endpoint}) }
		check(t, q.Pause(t.Context(), "https://HOOKS.test:443/b/"))
		add("/a/1", a)
		start(t, q)
		eventually(t, "it asks to wait", func() bool { return !endpoints(t, q)[a].Next.IsZero() })
		add("/a/2", a)
		add("/b", b)
		add("/c", "c")
		add("/d", "")
		waitFor(t, q, Stats{Delivered: 2, Waiting: 3})
		all := endpoints(t, q)
		if e := all[a]; e.Waiting != 2 || time.Until(e.Next) < 3000*time.Second {
			t.Errorf("%+v", e)
		}
		if e := all[b]; e.Waiting != 1 || e.Paused.IsZero() || e.Next.After(time.Now()) {
			t.Errorf("%+v", e)
		}
		if n := len(list(t, q, Filter{Endpoint: host})); n != 1 {
			t.Errorf("%d are for the origin", n)
		}
		if n := len(list(t, q, Filter{Endpoint: a})); n != 2 {
			t.Errorf("%d are for a name", n)
		}
		check(t, q.Resume(t.Context(), b))
		waitFor(t, q, Stats{Delivered: 3, Waiting: 2})
		for _, bad := range []string{"-", " a", "a\n", "https://h.test?q", strings.Repeat("x", maxEndpoint+1)} {
			if _, err := q.Enqueue(t.Context(), post(t, host, "x"), Options{Endpoint: bad}); err == nil {
				t.Errorf("the endpoint %.20q is accepted", bad)
			}
		}
	})
}
