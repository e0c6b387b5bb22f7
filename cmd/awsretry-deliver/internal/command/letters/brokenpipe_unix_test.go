//go:build unix

package letters

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

// A closingWriter is a pipe whose reader goes away after some lines.
type closingWriter struct {
	lines int
	text  strings.Builder
}

func (w *closingWriter) Write(p []byte) (int, error) {
	w.lines -= bytes.Count(p, []byte("\n"))
	if w.lines < 0 {
		return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
	}
	return w.text.Write(p)
}

// When the report has no reader any more, nothing more is sent, and the letters
// that were delivered are deleted.
func TestRedriveWithoutReader(t *testing.T) {
	for _, c := range []struct {
		lines int // that are read
		sent  string
		left  int
	}{
		{0, "", 3}, {1, "", 3}, {2, "", 3}, {3, "", 3}, // not the whole header
		{4, "1", 2}, // not the first row
		{5, "1 2", 1},
		{6, "1 2 3", 0}, // not the verdict
	} {
		t.Run(fmt.Sprint(c.lines, " lines"), func(t *testing.T) {
			s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
			for _, body := range []string{"1", "2", "3"} {
				bury(t, dir, s.URL, body, nil)
			}
			got := clitest.Shell{Out: &closingWriter{lines: c.lines}}.Run(t, New, "letters", "redrive", "--allow-private", dir)
			if sent := strings.Join(s.Bodies(), " "); got.Status != 1 || sent != c.sent || lettersIn(t, dir) != c.left {
				t.Errorf("%+v, %q sent, %d left; want status 1, %q and %d",
					got, sent, lettersIn(t, dir), c.sent, c.left)
			}
			want := fmt.Sprintf("standard output was closed: interrupted: %d delivered", 3-c.left)
			if c.left == 0 {
				want = "standard output was closed: 3 delivered"
			}
			if !strings.Contains(got.Err, want) {
				t.Errorf("%q does not say %q", got.Err, want)
			}
		})
	}
}
