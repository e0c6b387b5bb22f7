package term

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
const hostile = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u009b2J \u0085\u0090 \x00\x08\x7f " +
	"tab\there\r\nünï 四 😀\n\rend \xe2\x82"

const harmless = "\uFFFD[31mred\uFFFD]0;title\uFFFD \uFFFD2J \uFFFD2J \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD " +
	"tab\there\nünï 四 😀\nend \uFFFD\uFFFD"

func TestWriter(t *testing.T) {
	for size := 1; size <= len(hostile); size++ { // characters are split between two writes
		var b strings.Builder
		w := NewWriter(&b)
		for rest := hostile; rest != ""; {
			n := min(size, len(rest))
			if written, err := io.WriteString(w, rest[:n]); written != n || err != nil {
				t.Fatalf("wrote %d of %d bytes, %v", written, n, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if b.String() != harmless {
			t.Fatalf("in writes of %d bytes: got %q, want %q", size, b.String(), harmless)
		}
	}
}

func TestWriterReturnsErrors(t *testing.T) {
	r, broken := io.Pipe()
	r.Close()
	if _, err := io.WriteString(NewWriter(broken), "x"); err == nil {
		t.Error("got no error of a closed pipe")
	}
}

func TestWriterWritesAtOnce(t *testing.T) {
	var b strings.Builder
	if io.WriteString(NewWriter(&b), "part"); b.String() != "part" {
		t.Errorf("got %q before Close", b.String())
	}
}

func TestEncoderEscapesControlCharacters(t *testing.T) {
	text := strings.ToValidUTF8(hostile, "?")
	for r := range rune(0xa0) {
		text += string(r)
	}
	for _, indent := range []string{"", "  "} {
		var b bytes.Buffer
		encoder := NewEncoder(&b)
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

func TestOneLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"lines", "a\n  b\n\n c ", "a b c"},
		{"control characters", "a\x1b[2J\u009b\tb", "a\uFFFD[2J\uFFFD b"},
		{"long", strings.Repeat("四", 301), strings.Repeat("四", 300) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := OneLine(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWithoutPackages(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"awsretry: Source.Profile is \"p\"; it must be", "profile is \"p\"; it must be"},
		{"with --rate 2: simulate: setting \"x\": awsretry: no", "with --rate 2: setting \"x\": no"},
		{"letters: Redrive: DIR/README: not a dead letter", "DIR/README: not a dead letter"},
		{"letters: List: open DIR", "open DIR"},
		{"letters: too many failures in a row: 2 dead letters: a", "too many failures in a row: 2 dead letters: a"},
		{"p.json has 2 faults:\n  delivery: a\n  delivery: b", "p.json has 2 faults:\n  a\n  b"},
		{"open awsretry/delivery.json", "open awsretry/delivery.json"},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := WithoutPackages(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
