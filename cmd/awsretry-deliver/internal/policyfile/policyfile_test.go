package policyfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/internal/regularfile"
)

func TestRead(t *testing.T) {
	file := clitest.File(t, "policy.json", `{"healthyRetryPolicy": {"numRetries": 4}}`)
	for _, c := range []struct {
		name    string
		path    string
		topic   bool
		stdin   string
		retries int
		raw     bool
		shown   string // the name
	}{
		{"file", file, false, "", 4, false, file},
		{"standard input", "-", false, `{"healthyRetryPolicy": {"numRetries": 5}}`, 5, false, "standard input"},
		{"defaults", "-", false, `{}`, 3, false, "standard input"},
		{"topic", "-", false, `{"http": {"defaultHealthyRetryPolicy": {"numRetries": 6}}}`, 6, false, "standard input"},
		{"topic without an attribute", "-", true, `{}`, 3, false, "standard input"},
		{"raw message delivery", "-", false, `{"requestPolicy": {"headerContentType": "text/csv"}}`, 3, true,
			"standard input"},
		{"byte order mark", "-", false, "\ufeff{}", 3, false, "standard input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.path, c.topic, strings.NewReader(c.stdin))
			if err != nil {
				t.Fatal(err)
			}
			if n := *got.Policy.HealthyRetryPolicy.NumRetries; n != c.retries || got.Raw != c.raw ||
				got.Name != c.shown {
				t.Errorf("%d retries, raw %t, name %q; want %d, %t, %q",
					n, got.Raw, got.Name, c.retries, c.raw, c.shown)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	folder := t.TempDir()
	long := filepath.Join(folder, "long.json")
	if err := os.WriteFile(long, bytes.Repeat([]byte(" "), regularfile.MaxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		path  string
		topic bool
		stdin string
		want  []string
	}{
		{"no such file", filepath.Join(folder, "none.json"), false, "", []string{"none.json", "no such file"}},
		{"folder", folder, false, "", []string{folder + " is not a regular file"}},
		{"too long", long, false, "", []string{"long.json has more than 1048576 bytes"}},
		{"device", os.DevNull, false, "", []string{os.DevNull + " is not a regular file", "- for standard input"}},
		{"empty", "-", false, "", []string{"standard input:1:1: not JSON"}},
		{"syntax", "-", false, "{\n  \"healthyRetryPolicy\": {\"numRetries\": 3,}\n}",
			[]string{"standard input:2:42: not JSON: invalid character '}'"}},
		{"syntax after a byte order mark", "-", false, "\ufeff{,}", []string{"standard input:1:2: not JSON"}},
		{"one fault", "-", false, `{"healthyRetryPolicy": {"numRetries": 101}}`,
			[]string{"standard input: ", "healthyRetryPolicy.numRetries is 101; it must be a whole number, 0 to 100"}},
		{"two faults", "-", false, `{"healthyRetryPolicy": {"numRetries": 101, "minDelayTarget": 0}}`,
			[]string{"standard input has 2 faults:\n  ", "minDelayTarget is 0; ", "numRetries is 101; "}},
		{"fault of a topic", "-", false, `{"http": {"defaultThrottlePolicy": {"maxReceivesPerSecond": 0}}}`,
			[]string{"http.defaultThrottlePolicy.maxReceivesPerSecond is 0"}},
		{"content type of a topic", "-", false, `{"http": {"defaultRequestPolicy": {"headerContentType": "text/csv"}}}`,
			[]string{`http.defaultRequestPolicy.headerContentType is "text/csv"`}},
		{"subscription read as a topic", "-", true, `{"healthyRetryPolicy": {}}`,
			[]string{`"healthyRetryPolicy" is not an attribute of a delivery policy; allowed here: http`}},
		{"too long in all", "-", false, `{"healthyRetryPolicy": {"minDelayTarget": 3600, "maxDelayTarget": 3600}}`,
			[]string{"the sum of the pauses is 10800 s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(c.path, c.topic, strings.NewReader(c.stdin))
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
