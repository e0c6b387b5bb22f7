package services

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// OpenAI's and Anthropic's SDKs repeat every status from 500, unless the service
// forbids it.
func TestServerErrors(t *testing.T) {
	req := httpfake.Post(t, "https://api.example.com/v1/messages", "{}")
	for _, s := range []Service{OpenAI, AzureOpenAI, Anthropic} {
		for status := 500; status < 600; status++ {
			for header, want := range map[string]bool{"": true, "true": true, "false": false} {
				a := &awsretry.Attempt{Request: req, Response: httpfake.Response(req, status, http.NoBody, "X-Should-Retry", header)}
				if class := s.Policy(a); class.Retryable() != want {
					t.Errorf("%d with X-Should-Retry %q is %v", status, header, class)
				}
			}
		}
	}
}

// No secret in a path is part of a partition's name, which is logged.
func TestSecretsInPaths(t *testing.T) {
	const secret = "s3cr3t-x"
	for _, url := range []string{
		"https://hooks.slack.com/services/T0/B0/" + secret, "https://hooks.slack.com/triggers/T0/1/" + secret,
		"https://hooks.slack.com/workflows/T0/api/" + secret, "https://slack.com/api/chat.postMessage/" + secret,
		"https://discord.com/api/webhooks/1/" + secret, "https://discord.com/api/v10/webhooks/1/" + secret,
		"https://api.telegram.org/bot1:" + secret + "/sendMessage", "https://api.telegram.org/file/bot1:" + secret + "/a",
		"https://example.okta.com/" + secret, "https://example.okta.com/welcome/" + secret,
		"https://example.okta.com/api/" + secret + "/users", "https://example.okta.com/api/v1/" + secret,
		"https://example.okta.com/api/v1/sessions/" + secret, "https://example.okta.com/api/v1/authn/factors/" + secret + "/verify",
		"https://example.okta.com/api/v1/users/1/sessions/" + secret, "https://example.okta.com/oauth2/" + secret,
		"https://api.github.com/" + secret, "https://api.github.com/search/" + secret,
	} {
		req, err := http.NewRequest("POST", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.service.Partition == nil {
				continue
			}
			if name := s.service.Partition(req); strings.Contains(name, secret) || !strings.HasPrefix(name, req.URL.Host) {
				t.Errorf("%s: %s has the partition %q", s.name, url, name)
			}
		}
	}
}

// Each token has its own partition, whose name does not reveal the token.
func TestTokens(t *testing.T) {
	for _, service := range []struct {
		name, url string
		Service
	}{
		{"Slack", "https://slack.com/api/chat.postMessage", Slack},
		{"GitHub", "https://api.github.com/graphql", GitHub},
	} {
		names := map[string]bool{}
		for _, token := range []string{"Bearer secret-1", "Bearer secret-2", "Bearer secret-1", ""} {
			req, err := http.NewRequest("POST", service.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				req.Header.Set("Authorization", token)
			}
			name := service.Partition(req)
			names[name] = true
			if strings.Contains(name, "secret") {
				t.Errorf("%s: the partition is %q", service.name, name)
			}
		}
		if len(names) != 3 {
			t.Errorf("%s: two tokens and none have the partitions %v", service.name, names)
		}
	}
}

// Peek reads only the beginning of a success, and a limited part of an error.
func TestPeekIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name, method, url, body string
		service                 Service
		more                    bool
	}{
		{"nothing yet", "POST", "https://api.github.com/graphql", "", GitHub, true},
		{"the beginning of either", "POST", "https://api.github.com/graphql", " {", GitHub, true},
		{"data", "POST", "https://api.github.com/graphql", `{"data":{`, GitHub, false},
		{"an error", "POST", "https://api.github.com/graphql", `{"errors":[{`, GitHub, true},
		{"an error after data that is null", "POST", "https://github.example.com/api/graphql", `{"data": null, "errors"`, GitHub, true},
		{"a whole error", "POST", "https://api.github.com/graphql", `{"errors":[]}`, GitHub, false},
		{"a long error", "POST", "https://api.github.com/graphql", `{"errors":[` + strings.Repeat(" ", longestError), GitHub, false},
		{"a GET", "GET", "https://api.github.com/graphql", "", GitHub, false},
		{"REST", "POST", "https://api.github.com/repos/a/graphql", "", GitHub, false},
		{"Slack's error", "POST", "https://slack.com/api/auth.test", "{ \"ok\": false,", Slack, true},
		{"Slack's success", "POST", "https://slack.com/api/auth.test", `{"ok":true,`, Slack, false},
		{"Shopify's data", "POST", "https://a.myshopify.com/admin/api/2025-07/graphql.json", `{"data":{`, Shopify, false},
		{"a long error of Shopify", "POST", "https://a.myshopify.com/admin/api/2025-07/graphql.json",
			`{"errors":[` + strings.Repeat(" ", longestError), Shopify, false},
	} {
		req, err := http.NewRequest(tt.method, tt.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp := httpfake.Response(req, 200, http.NoBody)
		if more := tt.service.Peek(resp, []byte(tt.body)); more != tt.more {
			t.Errorf("%s: more is %v", tt.name, more)
		}
	}
}

// A small document that breaks off is requested again. Google and Kubernetes stream
// JSON without a length, which is returned at once.
func TestBrokenDocuments(t *testing.T) {
	const text = `{"object":"list","data":[]}`
	for _, s := range all {
		for length, want := range map[int64]int{int64(len(text)): 2, -1: 2, longestError + 1: 2} {
			if streams := s.name == "Google" || s.name == "Kubernetes"; streams && length != int64(len(text)) {
				want = 1
			}
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				tr := &awsretry.Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					var r io.Reader = strings.NewReader(text)
					if sent++; sent == 1 {
						r = io.MultiReader(strings.NewReader(text[:9]), iotest.ErrReader(io.ErrUnexpectedEOF))
					}
					resp := httpfake.Response(req, 200, io.NopCloser(r), "Content-Type", "application/json")
					resp.ContentLength = length
					return resp, nil
				})}
				s.service.Apply(tr)
				resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
				if err != nil || sent != want {
					t.Fatalf("%s, length %d: sent %d times, want %d; %v", s.name, length, sent, want, err)
				}
				if body, err := io.ReadAll(resp.Body); want == 2 && (string(body) != text || err != nil) {
					t.Errorf("%s: read %q, %v", s.name, body, err)
				}
			})
		}
	}
}

// If a stream breaks off before its first content, the request is sent again. The
// response is returned as soon as the first content comes, compressed or not.
func TestStreams(t *testing.T) {
	const start = "event: message_start\r\ndata: {\"type\":\"message_start\"}\r\n\r\n: a comment\r\n\r\nevent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n"
	const delta = "event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\r\ndata: \"delta\":{\"type\":\"text_delta\",\"text\":\"\u00e4\"}}\r\n\r\n"
	for _, coding := range []string{"", "gzip", "deflate", "raw"} {
		parts := []string{start, delta[:len(delta)/2], delta[len(delta)/2:]}
		if coding != "" {
			parts = httpfake.Compressed(coding, parts...)
		}
		t.Run(coding, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent, contentAt := 0, time.Time{}
				tr := &awsretry.Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					sent++
					r, w := io.Pipe()
					go func(sent int) {
						io.WriteString(w, parts[0])
						time.Sleep(3 * time.Second)
						if sent == 1 {
							w.CloseWithError(errors.New("broken off"))
							return
						}
						contentAt = time.Now()
						io.WriteString(w, parts[1])
						io.WriteString(w, parts[2])
						time.Sleep(time.Minute)
						w.CloseWithError(errors.New("broken off later"))
					}(sent)
					return httpfake.Response(req, 200, r, "Content-Type", "text/event-stream",
						"Content-Encoding", httpfake.ContentEncoding(coding)), nil
				})}
				Anthropic.Apply(tr)
				resp, err := tr.RoundTrip(httpfake.Post(t, "http://a.test/v1/messages", "{}"))
				if err != nil || sent != 2 || !time.Now().Equal(contentAt) {
					t.Fatalf("sent %d times, %v after the content, %v", sent, time.Since(contentAt), err)
				}
				body, err := io.ReadAll(resp.Body)
				if string(body) != strings.Join(parts, "") || err == nil || sent != 2 {
					t.Errorf("sent %d times, %q, %v", sent, body, err)
				}
			})
		})
	}
}

// No response of a server causes a panic or a negative delay.
func FuzzBodies(f *testing.F) {
	for _, s := range all {
		for _, r := range recorded(f, s.file) {
			f.Add(r.url, r.status, r.header.Get("Content-Type"), r.body)
		}
	}
	f.Fuzz(func(t *testing.T, url string, status int, kind, body string) {
		req, err := http.NewRequest("POST", url, nil)
		if err != nil || req.URL.Host == "" {
			return
		}
		resp := httpfake.Response(req, status, http.NoBody, "Content-Type", kind)
		for _, named := range all {
			name, s := named.name, named.service
			if s.Peek != nil {
				s.Peek(resp, []byte(body))
			}
			if s.Partition != nil && s.Partition(req) == "" {
				t.Errorf("%s: no partition for %q", name, url)
			}
			if s.Policy != nil {
				s.Policy(&awsretry.Attempt{Request: req, Response: resp, Body: []byte(body)})
			}
			if s.RetryAfter != nil {
				if d, ok := s.RetryAfter(resp, []byte(body)); ok && d < 0 {
					t.Errorf("%s: a delay of %v", name, d)
				}
			}
		}
	})
}
