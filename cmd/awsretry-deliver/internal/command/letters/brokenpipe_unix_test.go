//go:build unix

package letters

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// A closingWriter is a pipe whose reader closes it after some lines.
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

// When the report no longer has a reader, nothing more is sent, and the letters
// that were delivered are deleted.
func TestRedriveWithoutReader(t *testing.T) {
	for _, c := range []struct {
		lines int // that are read
		sent  string
		want  string
	}{
		{3, "", "standard output was closed: interrupted: 0 delivered"}, // not the whole header
		{4, "1", "standard output was closed: interrupted: 1 delivered"},
		{6, "1 2 3", "standard output was closed: 3 delivered"}, // not the verdict
	} {
		s, dir := clitest.Start(t, clitest.Fine), t.TempDir()
		for _, body := range []string{"1", "2", "3"} {
			bury(t, dir, s.URL, body, nil)
		}
		got := runRedrive(t, clitest.Shell{Out: &closingWriter{lines: c.lines}}, dir)
		if sent := strings.Join(s.Bodies(), " "); got.Status != cli.Failure || !strings.Contains(got.Err, c.want) ||
			sent != c.sent || lettersIn(t, dir) != 3-len(s.Bodies()) {
			t.Errorf("%d lines: %+v, %q sent, %d left; want %q and %q sent",
				c.lines, got, sent, lettersIn(t, dir), c.want, c.sent)
		}
	}
}
