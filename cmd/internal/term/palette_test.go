package term

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"example.com/awsretry"
)

func TestColors(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"terminal", true, nil, true},
		{"no terminal", false, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"dumb terminal", true, map[string]string{"TERM": "dumb"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			streams := Streams{
				Getenv:     func(name string) string { return c.env[name] },
				IsTerminal: func(io.Writer) bool { return c.terminal },
			}
			p := NewPalette(streams, &bytes.Buffer{})
			for _, color := range []Color{
				p.Faint, p.Bold, p.Good, p.Bad, p.Warn, p.Throttle,
				p.Class(awsretry.Success), p.Class(awsretry.Permanent), p.Class(awsretry.Timeout),
				p.Class(awsretry.Throttled),
			} {
				if got := color("text"); strings.Contains(got, "\x1b[") != c.want || !strings.Contains(got, "text") {
					t.Errorf("got %q, want colors: %t", got, c.want)
				}
			}
		})
	}
}
