package policyfile

import (
	"os"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

func TestRead(t *testing.T) {
	file := clitest.File(t, "policy.json", `{"healthyRetryPolicy": {"numRetries": 4}}`)
	for _, c := range []struct {
		name    string
		path    string
		stdin   string
		retries int
		raw     bool
		shown   string // the name
	}{
		{"file", file, "", 4, false, file},
		{"topic", "-", `{"http": {"defaultHealthyRetryPolicy": {"numRetries": 6}}}`, 6, false, "standard input"},
		{"raw message delivery", "-", `{"requestPolicy": {"headerContentType": "text/csv"}}`, 3, true,
			"standard input"},
		{"byte order mark", "-", "\ufeff{}", 3, false, "standard input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Must[File](t)(Read(c.path, strings.NewReader(c.stdin)))
			if n := *got.Policy.HealthyRetryPolicy.NumRetries; n != c.retries || got.Raw != c.raw || got.Name != c.shown {
				t.Errorf("%d retries, raw %t, name %q; want %d, %t, %q", n, got.Raw, got.Name, c.retries, c.raw, c.shown)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		path  string
		stdin string
		want  []string
	}{
		{"device", os.DevNull, "", []string{os.DevNull + " is not a regular file", "- for standard input"}},
		{"empty", "-", "", []string{"standard input:1:1: not JSON"}},
		{"syntax", "-", "{\n  \"äöü\": {\"numRetries\": 3,}\n}",
			[]string{"standard input:2:27: not JSON: invalid character '}'"}},
		{"syntax after a byte order mark", "-", "\ufeff{,}", []string{"standard input:1:2: not JSON"}},
		{"one fault", "-", `{"healthyRetryPolicy": {"numRetries": 101}}`,
			[]string{"standard input: ", "healthyRetryPolicy.numRetries is 101; it must be a whole number, 0 to 100"}},
		{"two faults", "-", `{"healthyRetryPolicy": {"numRetries": 101, "minDelayTarget": 0}}`,
			[]string{"standard input has 2 faults:\n  ", "minDelayTarget is 0; ", "numRetries is 101; "}},
		{"raw and another fault", "-",
			`{"requestPolicy": {"headerContentType": "text/csv"}, "throttlePolicy": {"maxReceivesPerSecond": 0}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(c.path, strings.NewReader(c.stdin))
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
		})
	}
}
