package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// all are the services, by the files with responses from their documentation.
var all = map[string]Service{
	"github": GitHub, "openai": OpenAI, "azureopenai": AzureOpenAI, "anthropic": Anthropic, "stripe": Stripe,
	"shopify": Shopify, "slack": Slack, "okta": Okta, "google": Google, "kubernetes": Kubernetes,
}

// A said is a response, and what it means.
type said struct {
	title, method, url string
	status             int
	header             http.Header
	body, means        string
}

// documented reads a file of responses. Each has a title, a request line, a
// status, headers, a body after an empty line, and its class, delay and
// partition.
func documented(t *testing.T, file string) (responses []said) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimPrefix(string(text), "# "), "\n# ") {
		r := said{header: http.Header{}}
		in := bufio.NewReader(strings.NewReader(block))
		line := func() string {
			s, _ := in.ReadString('\n') // the rest is read at once
			return strings.TrimSuffix(s, "\n")
		}
		r.title = line()
		r.method, r.url, _ = strings.Cut(line(), " ")
		fmt.Sscan(line(), &r.status)
		for h := line(); h != ""; h = line() {
			name, value, _ := strings.Cut(h, ": ")
			r.header.Set(name, value)
		}
		rest, _ := io.ReadAll(in) // a strings.Reader does not fail
		body, means, ok := strings.Cut(string(rest), "= ")
		if i := strings.LastIndex(string(rest), "\n= "); i >= 0 {
			body, means = string(rest)[:i+1], string(rest)[i+3:]
		}
		if !ok || r.status == 0 || r.url == "" {
			t.Fatalf("%s: %q cannot be read", file, r.title)
		}
		r.body, r.means = body, strings.TrimSpace(means)
		responses = append(responses, r)
	}
	return responses
}

// What the documentation shows is understood, compressed or not, and of a
// response that is returned no byte is lost.
func TestDocumented(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(all) {
		t.Fatalf("%d files for %d services: %v", len(files), len(all), err)
	}
	for name, service := range all {
		for _, said := range documented(t, filepath.Join("testdata", name+".txt")) {
			for _, coding := range []string{"", "gzip", "deflate", "raw"} {
				t.Run(strings.TrimSuffix(name+"/"+said.title+"/"+coding, "/"), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testDocumented(t, service, said, coding) })
				})
			}
		}
	}
}

// testDocumented fails unless the service understands a response, whose body is
// in a coding of httpfake.Compressed unless that is "".
func testDocumented(t *testing.T, service Service, said said, coding string) {
	if coding != "" {
		said.body = httpfake.Compressed(coding, said.body)[0]
		said.header = said.header.Clone()
		said.header.Set("Content-Encoding", httpfake.ContentEncoding(coding))
	}
	var first awsretry.Attempt
	tr := &awsretry.Transport{
		RetryAfterSpread: -1,
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			// In pieces of a byte, as a network may.
			body := io.NopCloser(iotest.OneByteReader(strings.NewReader(said.body)))
			resp := httpfake.Response(req, said.status, body)
			resp.Header = said.header.Clone()
			return resp, nil
		}),
		Observe: func(a awsretry.Attempt) {
			if a.Number == 1 {
				first = a
			}
		},
	}
	service.Apply(tr)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, said.method, said.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v, %v, %s", first.Class, first.Asked, first.Partition)
	if got != said.means {
		t.Errorf("%s; want %s", got, said.means)
	}
	if body := httpfake.ReadAll(t, resp); body != said.body {
		t.Errorf("the body is %q, want %q", body, said.body)
	}
}

// Apply sets what is not set, and the zero value sets nothing.
func TestApply(t *testing.T) {
	mine := &awsretry.Transport{
		Policy: awsretry.DefaultPolicy, MaxRetryAfter: time.Second, Mode: awsretry.Adaptive,
		Partition: func(*http.Request) string { return "mine" }, IdempotencyKey: func(*http.Request) string { return "key" },
	}
	GitHub.Apply(mine)
	Stripe.Apply(mine)
	if mine.MaxRetryAfter != time.Second || mine.Partition(nil) != "mine" || mine.IdempotencyKey(nil) != "key" ||
		mine.Policy(&awsretry.Attempt{Response: &http.Response{StatusCode: 409}}) != awsretry.Permanent {
		t.Error("Apply replaces what was set")
	}
	if mine.RateLimit.Limits == nil || mine.RetryAfter == nil || mine.Peek == nil {
		t.Error("Apply does not set what was not set")
	}
	var plain, zero awsretry.Transport
	Service{}.Apply(&plain)
	if !reflect.DeepEqual(&plain, &zero) {
		t.Errorf("the zero Service sets something: %+v", &plain)
	}
	for name, s := range all {
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			tr := &awsretry.Transport{Mode: mode}
			if s.Apply(tr); tr.Validate() != nil {
				t.Errorf("%s: %v", name, tr.Validate())
			}
		}
	}
}

// Each workspace of Slack has a partition, which does not show its token.
func TestSlackWorkspaces(t *testing.T) {
	names := map[string]bool{}
	for _, token := range []string{"Bearer xoxb-1", "Bearer xoxb-2", "Bearer xoxb-1"} {
		req, err := http.NewRequest("POST", "https://slack.com/api/chat.postMessage", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", token)
		name := Slack.Partition(req)
		names[name] = true
		if strings.Contains(name, "xox") {
			t.Errorf("the partition is %q", name)
		}
	}
	if len(names) != 2 {
		t.Errorf("two workspaces have the partitions %v", names)
	}
}

// A stream that breaks off before its content is sent again, and is returned at
// the instant of its first content, compressed or not.
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

// Whatever a server sends, nothing panics, and no delay is negative.
func FuzzBodies(f *testing.F) {
	for name := range all {
		for _, said := range documented(&testing.T{}, filepath.Join("testdata", name+".txt")) {
			f.Add(said.url, said.status, said.header.Get("Content-Type"), said.body)
		}
	}
	f.Fuzz(func(t *testing.T, url string, status int, kind, body string) {
		req, err := http.NewRequest("POST", url, nil)
		if err != nil || req.URL.Host == "" {
			return
		}
		resp := httpfake.Response(req, status, http.NoBody, "Content-Type", kind)
		for name, s := range all {
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
