package screen

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// hostile has escape sequences that begin with C0 and C1 characters, C1 as raw
// bytes, and text that is not UTF-8.
const hostile = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u009b2J \u0085\u0090 \x00\x08\x7f tab\there\r\nünï 四 😀\n\rend \xe2\x82"

const harmless = "\uFFFD[31mred\uFFFD]0;title\uFFFD \uFFFD2J \uFFFD2J \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD tab\there\nünï 四 😀\nend \uFFFD\uFFFD"

func TestScreen(t *testing.T) {
	for size := 1; size <= len(hostile); size++ { // characters fall apart between two writes
		var b strings.Builder
		screen := newScreen(&b)
		for rest := hostile; rest != ""; {
			n := min(size, len(rest))
			if written, err := io.WriteString(screen, rest[:n]); written != n || err != nil {
				t.Fatalf("wrote %d of %d bytes, %v", written, n, err)
			}
			rest = rest[n:]
		}
		if err := screen.Close(); err != nil {
			t.Fatal(err)
		}
		if b.String() != harmless {
			t.Fatalf("in writes of %d bytes: got %q, want %q", size, b.String(), harmless)
		}
	}
}

func TestScreenPassesOnErrors(t *testing.T) {
	screen := newScreen(fullDisk{})
	if _, err := io.WriteString(screen, "x"); err == nil {
		t.Error("writing to a full disk succeeds")
	}
}

// A screen shows each part of a body at once.
func TestScreenDoesNotWait(t *testing.T) {
	var b strings.Builder
	if io.WriteString(newScreen(&b), "part"); b.String() != "part" {
		t.Errorf("the screen shows %q", b.String())
	}
}

func TestJSONEscapesControlCharacters(t *testing.T) {
	text := strings.ToValidUTF8(hostile, "?")
	for r := range rune(0xa0) {
		text += string(r)
	}
	for _, indent := range []string{"", "  "} {
		var b bytes.Buffer
		encoder := newJSON(&b)
		encoder.SetIndent("", indent)
		if err := encoder.Encode(map[string]string{text: text + "<&>"}); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(b.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
			t.Errorf("a control character at %d of %q", i, b.String())
		}
		var back map[string]string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{text: text + "<&>"}, back); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(b.String(), "<&>") {
			t.Error("HTML is escaped")
		}
	}
}

// No control character from a server reaches a terminal, whether in the body or
// in a header. A pipe gets the body unchanged.
func TestGetFromHostileServer(t *testing.T) {
	const c1 = "\u009b31m" // in a header net/http lets no C0 through
	s := serve(t, reply{status: 400, body: hostile, header: map[string]string{
		"X-Amzn-Errortype": "Evil" + c1 + "Exception", "X-Amzn-Requestid": "id" + c1, "Retry-After": "1" + c1,
		"Location": "/there" + c1, "Content-Type": "text/plain" + c1,
	}})
	redirect := serve(t, reply{status: 302, header: map[string]string{"Location": "/there" + c1 + "?q"}})
	terminals := []string{"stdout", "stderr"}
	for _, c := range []struct {
		name   string
		shell  shell
		args   []string
		stdout string
	}{
		{"terminal", shell{terminals: terminals}, []string{s.URL}, harmless},
		{"piped body", shell{terminals: terminals[1:]}, []string{s.URL}, hostile},
		{"piped", shell{}, []string{s.URL}, hostile},
		{"JSON", shell{terminals: terminals}, []string{"--json", s.URL}, harmless},
		{"redirect", shell{terminals: terminals}, []string{redirect.URL}, ""},
		{"dash", shell{terminals: terminals}, []string{"-o", "-", s.URL}, harmless},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.shell.env = map[string]string{"NO_COLOR": "1"}
			got := c.shell.run(t, get(c.args...)...)
			if got.stdout != c.stdout {
				t.Errorf("standard output is %q, want %q", got.stdout, c.stdout)
			}
			if i := strings.IndexFunc(got.stderr, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
				t.Errorf("a control character at %d of %q", i, got.stderr)
			}
		})
	}
}
