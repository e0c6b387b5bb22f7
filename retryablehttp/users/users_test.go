// These tests drive programs' clients that use go-retryablehttp, over this
// repository's retryablehttp and, with upstream.mod, over the original.
package users

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/hashicorp/go-tfe"
	vault "github.com/hashicorp/vault/api"
	"github.com/vultr/govultr/v3"
	gitlab "gitlab.com/gitlab-org/api/client-go"
	"golang.org/x/oauth2"
)

// A fault is what a server does instead of its response.
type fault struct {
	status int // 0: the connection is closed
	header http.Header
	body   string
}

// A service responds with its faults first, and then well.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	faults []fault
	seen   []string
	bytes  atomic.Int64 // of request bodies
}

func newService(t *testing.T, good map[string]string, faults ...fault) *service {
	t.Helper()
	s := &service{faults: faults}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		s.bytes.Add(n)
		body, ok := good[r.Method+" "+r.URL.Path]
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path)
		var f *fault
		if ok && strings.Contains(body, "FAULTS") && len(s.faults) > 0 {
			f, s.faults = &s.faults[0], s.faults[1:]
		}
		s.mu.Unlock()
		switch {
		case f != nil && f.status == 0:
			panic(http.ErrAbortHandler)
		case f != nil:
			for name, values := range f.header {
				w.Header()[name] = values
			}
			w.WriteHeader(f.status)
			io.WriteString(w, f.body)
		case ok:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.ReplaceAll(body, "FAULTS", ""))
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// attempts returns how many requests came to a path.
func (s *service) attempts(path string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seen := range s.seen {
		if strings.HasSuffix(seen, path) {
			n++
		}
	}
	return n
}

// A user is a client of a service, as programs use it.
type user struct {
	name string
	path string            // that has the faults
	good map[string]string // the responses; those with FAULTS come after them
	call func(ctx context.Context, url string) (result string, err error)
}

var users = []user{
	{
		"vault", "/v1/secret/x", map[string]string{"GET /v1/secret/x": `FAULTS{"data": {"key": "value"}}`},
		func(ctx context.Context, url string) (string, error) {
			config := vault.DefaultConfig()
			config.Address, config.MinRetryWait, config.MaxRetryWait = url, time.Millisecond, 2*time.Millisecond
			c, err := vault.NewClient(config)
			if err != nil {
				return "", err
			}
			secret, err := c.Logical().ReadWithContext(ctx, "secret/x")
			if err != nil || secret == nil {
				return "none", err
			}
			return fmt.Sprint(secret.Data), nil
		},
	},
	{
		"go-tfe", "/api/v2/organizations/acme", map[string]string{
			"GET /api/v2/ping":               "",
			"GET /api/v2/organizations/acme": `FAULTS{"data": {"id": "acme", "type": "organizations", "attributes": {"name": "acme"}}}`,
		},
		func(ctx context.Context, url string) (string, error) {
			c, err := tfe.NewClient(&tfe.Config{Address: url, Token: "t", RetryServerErrors: true, HTTPClient: &http.Client{}})
			if err != nil {
				return "", err
			}
			org, err := c.Organizations.Read(ctx, "acme")
			if err != nil {
				return "", err
			}
			return org.Name, nil
		},
	},
	{
		"gitlab", "/api/v4/user", map[string]string{"GET /api/v4/user": `FAULTS{"username": "root"}`},
		func(ctx context.Context, url string) (string, error) {
			c, err := gitlab.NewClient("t", gitlab.WithBaseURL(url),
				gitlab.WithCustomRetryWaitMinMax(time.Millisecond, 2*time.Millisecond))
			if err != nil {
				return "", err
			}
			u, _, err := c.Users.CurrentUser(gitlab.WithContext(ctx))
			if err != nil {
				return "", err
			}
			return u.Username, nil
		},
	},
	{
		"godo", "/v2/domains", map[string]string{"POST /v2/domains": `FAULTS{"domain": {"name": "a.example"}}`},
		func(ctx context.Context, url string) (string, error) {
			lo, hi := 0.001, 0.002
			c, err := godo.New(oauth2.NewClient(ctx, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"})),
				godo.SetBaseURL(url), godo.WithRetryAndBackoffs(godo.RetryConfig{RetryMax: 2, RetryWaitMin: &lo, RetryWaitMax: &hi}))
			if err != nil {
				return "", err
			}
			domain, resp, err := c.Domains.Create(ctx, &godo.DomainCreateRequest{Name: "a.example"})
			if err != nil {
				return fmt.Sprintf("a response: %t", resp != nil), err
			}
			return domain.Name, nil
		},
	},
	{
		"govultr", "/v2/domains", map[string]string{"POST /v2/domains": `FAULTS{"domain": {"domain": "a.example"}}`},
		func(ctx context.Context, url string) (string, error) {
			c := govultr.NewClient(nil)
			c.SetRateLimit(2 * time.Millisecond)
			if err := c.SetBaseURL(url); err != nil {
				return "", err
			}
			domain, _, err := c.Domain.Create(ctx, &govultr.DomainReq{Domain: "a.example"})
			if err != nil {
				return "", err
			}
			return domain.Domain, nil
		},
	},
}

var faults = []struct {
	name string
	all  []fault
}{
	{"none", nil},
	{"503 twice", []fault{{status: 503}, {status: 503}}},
	{"429 that says when", []fault{{status: 429, header: http.Header{
		"Retry-After": {"0"}, "X-RateLimit-Reset": {"0.01"}, "RateLimit-Reset": {"0"},
	}}}},
	{"a connection that is closed", []fault{{}}},
	{"404", []fault{{status: 404, body: `{"errors": ["no such thing"]}`}}},
	{"403", []fault{{status: 403, body: `{"errors": ["denied"]}`}}},
	{"500 for good", slicesOf(40, fault{status: 500, body: `{"errors": ["broken"], "message": "broken"}`})},
}

func slicesOf(n int, f fault) []fault {
	all := make([]fault, n)
	for i := range all {
		all[i] = f
	}
	return all
}

var transcript = flag.String("transcript", "", "write the results to this file, for a comparison")

// results runs each user with each fault, and returns the outcome.
func results(t *testing.T) map[string]string {
	t.Helper()
	var mu sync.Mutex
	all := make(map[string]string)
	var wg sync.WaitGroup
	for _, u := range users {
		for _, f := range faults {
			if u.name == "go-tfe" && f.name == "500 for good" { // it retries for minutes
				f.name, f.all = "500 four times", f.all[:4]
			}
			wg.Go(func() {
				s := newService(t, u.good, f.all...)
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				result, err := u.call(ctx, s.URL)
				text := fmt.Sprintf("%d attempts with %d bytes, %q", s.attempts(u.path), s.bytes.Load(), result)
				if err != nil {
					text += ", error: " + strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), s.URL, "URL")), " ")
				}
				text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "HOST")
				mu.Lock()
				all[u.name+", "+f.name] = text
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	return all
}

// The results are the same as over the original.
func TestSameResults(t *testing.T) {
	if *transcript != "" {
		text, err := json.Marshal(results(t))
		if err == nil {
			err = os.WriteFile(*transcript, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.json")
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-modfile=upstream.mod", "-run=^TestSameResults$", ".",
		"-args", "-transcript="+file)
	var stderr strings.Builder
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	got := results(t)
	if len(got) != len(users)*len(faults) || len(want) != len(got) {
		t.Errorf("%d results, and %d of the original", len(got), len(want))
	}
	for name, text := range got {
		t.Logf("%s: %s", name, text)
		if text != want[name] {
			t.Errorf("%s:\n%s\nthe original:\n%s", name, text, want[name])
		}
	}
}

// neverEnding is an io.Reader of zeros.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An upload of 1 GiB takes no memory.
func TestUploads(t *testing.T) {
	const size = 1 << 30
	for name, upload := range map[string]func(url string, body io.Reader) error{
		"go-tfe": func(url string, body io.Reader) error {
			c, err := tfe.NewClient(&tfe.Config{Address: url, Token: "t", HTTPClient: &http.Client{}})
			if err != nil {
				return err
			}
			return c.ConfigurationVersions.UploadTarGzip(context.Background(), url+"/upload", body)
		},
		"gitlab": func(url string, body io.Reader) error {
			c, err := gitlab.NewClient("t", gitlab.WithBaseURL(url))
			if err != nil {
				return err
			}
			_, _, err = c.GenericPackages.PublishPackageFile(1, "p", "1", "f", body, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, map[string]string{
				"GET /api/v2/ping": "", "PUT /upload": "", "PUT /api/v4/projects/1/packages/generic/p/1/f": "{}", "GET /api/v4/": "",
			})
			var peak atomic.Uint64
			done, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					var stats runtime.MemStats
					runtime.ReadMemStats(&stats)
					peak.Store(max(peak.Load(), stats.HeapAlloc))
					select {
					case <-done:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
			err := upload(s.URL, io.LimitReader(neverEnding{}, size))
			close(done)
			<-stopped
			if err != nil || s.bytes.Load() != size {
				t.Errorf("%d bytes came: %v", s.bytes.Load(), err)
			}
			if peak.Load() > 64<<20 {
				t.Errorf("the heap had up to %d MiB", peak.Load()>>20)
			}
			t.Logf("the heap had up to %d MiB", peak.Load()>>20)
		})
	}
}
