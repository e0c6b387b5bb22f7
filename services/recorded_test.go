package services

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// all lists the Services in the order of docs/SERVICES.md, each with its file in
// testdata.
var all = []struct {
	name, file string
	service    Service
}{
	{"GitHub", "github", GitHub},
	{"OpenAI", "openai", OpenAI},
	{"AzureOpenAI", "azureopenai", AzureOpenAI},
	{"Anthropic", "anthropic", Anthropic},
	{"Stripe", "stripe", Stripe},
	{"Shopify", "shopify", Shopify},
	{"Slack", "slack", Slack},
	{"Okta", "okta", Okta},
	{"Google", "google", Google},
	{"Kubernetes", "kubernetes", Kubernetes},
}

// A recording is a response and its meaning.
type recording struct {
	title, method, url string
	status             int
	header             http.Header
	body, means        string
}

var sourceLine = regexp.MustCompile(`^source: \S.*\b20\d\d-\d\d\b`)

// recorded reads the recordings of a Service. Each has a title, its source and
// date, a request line, a status, headers, a body after an empty line, and its
// class, delay and partition.
func recorded(t testing.TB, name string) (all []recording) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimPrefix(string(text), "# "), "\n# ") {
		r := recording{header: http.Header{}}
		in := bufio.NewReader(strings.NewReader(block))
		line := func() string {
			s, _ := in.ReadString('\n')
			return strings.TrimSuffix(s, "\n")
		}
		r.title = line()
		if source := line(); !sourceLine.MatchString(source) {
			t.Fatalf("%s: %q has no source with a date", file, r.title)
		}
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
		all = append(all, r)
	}
	return all
}

// send sends the request of a recording through a Transport of the service that may
// send every request twice. It returns the first attempt, whose delay has no random
// part, and the last body.
func (r recording) send(t *testing.T, service Service) (first awsretry.Attempt, body string) {
	t.Helper()
	tr := &awsretry.Transport{
		Policy: awsretry.DefaultPolicy, RetryAfterSpread: -1,
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			// One byte at a time, as a network may deliver it.
			body := io.NopCloser(iotest.OneByteReader(strings.NewReader(r.body)))
			resp := httpfake.Response(req, r.status, body)
			resp.Header = r.header.Clone()
			return resp, nil
		}),
		Observe: func(a awsretry.Attempt) {
			if a.Number == 1 {
				first = a
			}
		},
	}
	service.Apply(tr)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return first, httpfake.ReadAll(t, resp)
}

// in returns the recording with its body in one of the codings of
// httpfake.Compressed.
func (r recording) in(coding string) recording {
	r.body = httpfake.Compressed(coding, r.body)[0]
	r.header = r.header.Clone()
	r.header.Set("Content-Encoding", httpfake.ContentEncoding(coding))
	return r
}

// Each recording gets its class, delay and partition, compressed or not, and no
// byte of the response is lost.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(all) {
		t.Fatalf("%d files for %d services: %v", len(files), len(all), err)
	}
	for _, s := range all {
		for _, r := range recorded(t, s.file) {
			name := s.file + "/" + r.title
			t.Run(name, func(t *testing.T) { r.test(t, s.service) })
			for _, coding := range []string{"gzip", "deflate", "raw"} {
				t.Run(name+"/"+coding, func(t *testing.T) { r.in(coding).test(t, s.service) })
			}
		}
	}
}

// test checks what the service makes of the recording.
func (r recording) test(t *testing.T, service Service) {
	synctest.Test(t, func(t *testing.T) {
		first, body := r.send(t, service)
		if got := fmt.Sprintf("%v, %v, %s", first.Class, first.Asked, first.Partition); got != r.means {
			t.Errorf("%s; want %s", got, r.means)
		}
		if body != r.body {
			t.Errorf("the body is %q, want %q", body, r.body)
		}
	})
}

var update = flag.Bool("update", false, "write the table in docs/SERVICES.md instead of comparing with it")

const (
	page  = "../docs/SERVICES.md"
	begin = "<!-- go test ./services -run TestPage -update writes this table. -->\n\n"
	end   = "\n<!-- The end of the table. -->\n"
)

// The table in docs/SERVICES.md shows what the code does with the recordings.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	written, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", page, begin, end)
	}
	table := tableOf(t)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if written != table {
		t.Errorf("the table of %s differs from the code and its recordings, which give\n%s", page, table)
	}
}

// tableOf returns the table. A row has a Service, what it does, and the recordings
// with which it does so.
func tableOf(t *testing.T) string {
	var table strings.Builder
	table.WriteString("| | | |\n|---|---|---|\n")
	for _, s := range all {
		cells := map[string][]string{"also sets": s.service.alsoSets()}
		for _, r := range recorded(t, s.file) {
			synctest.Test(t, func(t *testing.T) {
				first, _ := r.send(t, s.service)
				row, title := first.Class.String(), r.title
				if !first.Class.Retryable() {
					row = "not retried"
				}
				if first.Asked > 0 {
					title += fmt.Sprintf(" (%v)", first.Asked.Round(10*time.Millisecond))
				}
				cells[row] = append(cells[row], title)
				if name := "`" + first.Partition + "`"; s.service.Partition != nil && !slices.Contains(cells["partitions"], name) {
					cells["partitions"] = append(cells["partitions"], name)
				}
			})
		}
		name := "`" + s.name + "`"
		for _, row := range []string{"throttled", "transient", "not retried", "partitions", "also sets"} {
			if len(cells[row]) > 0 {
				fmt.Fprintf(&table, "| %s | %s | %s |\n", name, row, strings.Join(cells[row], "; "))
				name = ""
			}
		}
	}
	return table.String()
}

// alsoSets lists the settings that no recording shows.
func (s Service) alsoSets() (set []string) {
	for _, field := range []struct {
		isSet bool
		text  string
	}{
		{s.MaxAttempts > 0, fmt.Sprintf("`MaxAttempts: %d`", s.MaxAttempts)},
		{s.MaxRetryAfter > 0, fmt.Sprintf("`MaxRetryAfter: %v`", s.MaxRetryAfter)},
		{s.ShareRetryAfter, "`ShareRetryAfter`"},
		{s.Limits != nil && s.Cost == nil, "`RateLimit.Limits` in adaptive mode"},
		{s.Cost != nil, "`RateLimit.Limits` and `Cost` in adaptive mode"},
		{s.IdempotencyKey != nil, "`IdempotencyKey`"},
	} {
		if field.isSet {
			set = append(set, field.text)
		}
	}
	return set
}
