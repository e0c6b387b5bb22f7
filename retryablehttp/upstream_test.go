package retryablehttp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The version whose tests are run.
const upstream = "github.com/hashicorp/go-retryablehttp@v0.7.8"

// judged has the tests of upstream that do not pass, and why.
var judged = map[string]string{
	"TestClient_RequestWithContext": "a request whose context has ended is not sent, so CheckRetry is not asked",
	"TestParseRetryAfterHeader":     "its part two-headers",
	"TestParseRetryAfterHeader/two-headers": "the longest of several Retry-After headers is obeyed, not the first: " +
		"to come too early is worse",
}

// skipped has a test that looks up a name outside of this machine;
// TestErrorsAreNotNested is in its place.
const skipped = "^TestRoundTripper_TransportFailureErrorHandling$"

// shim has the unexported names that upstream's tests use.
const shim = `package retryablehttp

import (
	"net/http"
	"net/url"
	"time"
)

var timeNow = time.Now

var defaultLogger = NewClient().Logger

func redactURL(u *url.URL) string { return redacted(u) }

func parseRetryAfterHeader(headers []string) (time.Duration, bool) {
	return retryAfter(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": headers}})
}
`

// Upstream's own tests pass, apart from those that are judged. They are taken from
// the module proxy, and run in a copy of this package.
func TestUpstream(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for 20 s, as upstream's tests do")
	}
	var source struct{ Dir string }
	if err := json.Unmarshal([]byte(run(t, t.TempDir(), "go", "mod", "download", "-json", upstream)), &source); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		// The tests set the time.
		text := strings.ReplaceAll(read(t, name), "time.Until(at)", "at.Sub(timeNow())")
		if name == "policy.go" && !strings.Contains(text, "timeNow()") {
			t.Error("policy.go does not use time.Until(at)")
		}
		write(t, filepath.Join(dir, name), text)
	}
	for _, name := range []string{"client_test.go", "roundtripper_test.go"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join(source.Dir, name)))
	}
	write(t, filepath.Join(dir, "shim.go"), shim)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(read(t, "go.mod"), "replace example.com/awsretry => ../", "replace example.com/awsretry => "+root, 1)
	write(t, filepath.Join(dir, "go.mod"), mod+"\nrequire github.com/hashicorp/go-hclog v1.6.3\n")
	write(t, filepath.Join(dir, "go.sum"), read(t, "go.sum"))
	run(t, dir, "go", "mod", "tidy")

	cmd := exec.Command("go", "test", "-vet=off", "-v", "-skip", skipped, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, runErr := cmd.Output() // which fails because of those that are judged
	passed, failed := 0, make(map[string]bool)
	for _, result := range regexp.MustCompile(`--- (PASS|FAIL): (\S+)`).FindAllSubmatch(out, -1) {
		if string(result[1]) == "PASS" {
			passed++
		} else {
			failed[string(result[2])] = true
		}
	}
	if passed < 60 {
		t.Fatalf("only %d passed: %v\n%s", passed, runErr, out)
	}
	for name := range failed {
		if judged[name] == "" {
			t.Errorf("%s fails:\n%s", name, out)
		}
	}
	for name, why := range judged {
		if !failed[name] {
			t.Errorf("%s passes, and is judged: %s", name, why)
		}
	}
	t.Logf("%d passed, and %d that are judged did not", passed, len(failed))
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Dir, cmd.Stderr, cmd.Env = dir, &stderr, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%s %q: %w\n%s", name, args, err, stderr.String()))
	}
	return string(out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
