package delivery

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry/delivery/letters"
)

// An http.Client does not make a delivery of a redirect, whether or not its
// CheckRedirect is set. The letter arrives later at the first endpoint.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, checks := range map[string]bool{"by default": false, "with CheckRedirect": true} {
			t.Run(fmt.Sprintf("%d/%s", status, name), func(t *testing.T) {
				var moved atomic.Bool
				moved.Store(true)
				var arrived []string
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if moved.Load() && req.URL.Path == "/old" {
						http.Redirect(w, req, "/new", status)
						return
					}
					body, _ := io.ReadAll(req.Body)
					arrived = append(arrived, req.Method+" "+req.URL.Path+" "+string(body))
				}))
				defer server.Close()
				dir := t.TempDir()
				client := &http.Client{
					Transport: &Transport{DeadLetter: (&letters.Dir{Path: dir}).Put, Base: server.Client().Transport},
				}
				if checks {
					client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				}
				resp, err := client.Post(server.URL+"/old", "text/plain", strings.NewReader("hello"))
				if checks {
					if err != nil {
						t.Fatal(err)
					}
					if resp.StatusCode != status || resp.Header.Get("Location") != "/new" {
						t.Errorf("got %d to %q", resp.StatusCode, resp.Header.Get("Location"))
					}
					resp.Body.Close()
				} else if !errors.Is(err, ErrRedirect) || !strings.Contains(err.Error(), fmt.Sprint(status)) {
					t.Errorf("got %v", err)
				} else if strings.Count(err.Error(), "delivery: ") != 1 {
					t.Errorf("got %v, which does not name the package once", err)
				}
				if len(arrived) > 0 || len(entries(t, dir)) != 1 {
					t.Errorf("%q arrived, and there are %d letters; want nothing and one",
						arrived, len(entries(t, dir)))
				}

				moved.Store(false)
				again := &Transport{Base: server.Client().Transport}
				done, err := (&letters.Dir{Path: dir}).Redrive(t.Context(), again, letters.RedriveOptions{})
				if done != (letters.Counts{Delivered: 1}) || err != nil || len(arrived) != 1 ||
					arrived[0] != "POST /old hello" {
					t.Errorf("got %+v, %v; %q arrived", done, err, arrived)
				}
			})
		}
	}
}
