package term

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// hostile has escape sequences that begin with C0 and C1 characters, C1 as raw
// bytes, and text that is not UTF-8.
const hostile = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u009b2J \u0085\u0090 \x00\x08\x7f " +
	"tab\there\r\nünï 四 😀\n\rgpj\u202eexe \u2067end \xe2\x82"

const harmless = "\uFFFD[31mred\uFFFD]0;title\uFFFD \uFFFD2J \uFFFD2J \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD " +
	"tab\there\nünï 四 😀\ngpj\uFFFDexe \uFFFDend \uFFFD\uFFFD"

func TestWriter(t *testing.T) {
	for size := 1; size <= len(hostile); size++ { // characters are split between two writes
		var b strings.Builder
		w := NewWriter(&b)
		for chunk := range slices.Chunk([]byte(hostile), size) {
			if written, err := w.Write(chunk); written != len(chunk) || err != nil {
				t.Fatalf("wrote %d of %d bytes, %v", written, len(chunk), err)
			}
		}
		if !strings.HasSuffix(b.String(), "end ") { // all but the incomplete character
			t.Fatalf("in writes of %d bytes: got %q before Close", size, b.String())
		}
		if err := w.Close(); err != nil || b.String() != harmless {
			t.Fatalf("in writes of %d bytes: got %q, %v, want %q", size, b.String(), err, harmless)
		}
	}
}

func TestEncoderEscapesControlCharacters(t *testing.T) {
	text := strings.ToValidUTF8(hostile, "?")
	for r := range rune(0xa0) {
		text += string(r)
	}
	want := map[string]string{text: text + "<&>"}
	var b bytes.Buffer
	encoder := NewEncoder(&b)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(want); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }); i >= 0 {
		t.Errorf("a control character at %d of %q", i, b.String())
	}
	var back map[string]string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !maps.Equal(want, back) {
		t.Errorf("%v, got %q, want %q", err, back, want)
	}
	if !strings.Contains(b.String(), "<&>") {
		t.Error("HTML is escaped")
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\n  b\n\n c ":          "a b c",
		"a\x1b[2J\u009b\tb":      "a\uFFFD[2J\uFFFD b",
		strings.Repeat("四", 301): strings.Repeat("四", 300) + "…",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWithoutPackages(t *testing.T) {
	for text, want := range map[string]string{
		"awsretry: Source.Profile is \"p\"; it must be":        "profile is \"p\"; it must be",
		"with --rate 2: simulate: setting \"x\": awsretry: no": "with --rate 2: setting \"x\": no",
		"p.json has 2 faults:\n  delivery: a\n  delivery: b":   "p.json has 2 faults:\n  a\n  b",
		"open awsretry/delivery.json":                          "open awsretry/delivery.json",
	} {
		if got := WithoutPackages(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
