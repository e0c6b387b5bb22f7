//go:build unix

package files

import (
	"os"
	"testing"
)

// A file in a folder that is read-only, even for root, is overwritten.
func TestNoFileBeside(t *testing.T) {
	const path = "/proc/self/comm" // of Linux
	before, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(path, before, 0)
	if err := write(t, path, "outfile-test", (*Output).Keep); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "outfile-test\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
