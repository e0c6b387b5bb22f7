package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The tests of awssdk pass with a version of the SDK that always runs its loop
// of 2026, without the variable that selects it today.
func TestRetryerWithoutLoopVariable(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the SDK again")
	}
	const dir, sdkModule = "../awssdk", "github.com/aws/aws-sdk-go-v2"
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sdk := filepath.Join(t.TempDir(), "sdk")
	if err := os.CopyFS(sdk, os.DirFS(run("list", "-m", "-f", "{{.Dir}}", sdkModule))); err != nil {
		t.Fatal(err)
	}
	standard := filepath.Join(sdk, "aws", "retry", "standard.go")
	source, err := os.ReadFile(standard)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(source),
		`return os.Getenv("AWS_NEW_RETRIES_2026") == "true"`, `_ = os.Getenv; return true`, 1)
	if changed == string(source) {
		t.Skip("this version of the SDK does not ask the variable there")
	}
	if err := os.WriteFile(standard, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	// A workspace leaves the go.mod files as they are.
	work := filepath.Join(filepath.Dir(sdk), "go.work")
	module, root := absolute(t, dir), absolute(t, "..")
	text := fmt.Sprintf("go 1.25.0\n\nuse (\n\t%s\n\t%s\n)\n\nreplace %s => %s\n", module, root, sdkModule, sdk)
	if err := os.WriteFile(work, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOWORK", work)
	// TestRunsLoop2026 needs both loops, and TestLongPoll a client that says to
	// this loop that it is long-polling.
	run("test", "-vet=off", "-skip", "TestRunsLoop2026|TestLongPoll", ".")
}

func absolute(t *testing.T, path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
