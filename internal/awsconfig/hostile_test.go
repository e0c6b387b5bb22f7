package awsconfig

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A hostileText makes a careless reader's time or memory grow with the square
// of its size, or would need a deep stack.
type hostileText struct{ name, text, want string }

// hostileTexts returns texts of about the given size.
func hostileTexts(size int) []hostileText {
	const head, sound = "[profile p]\n", "\n[profile p]\nretry_mode = legacy\n"
	fill := func(head, line, tail string) string {
		return head + strings.Repeat(line, size/len(line)) + tail
	}
	numbered := func(head, format string, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String() + tail
	}
	// Nearly as many keys as a profile may have, of the same length.
	var keys strings.Builder
	for i := range maxKeys - 1 {
		fmt.Fprintf(&keys, "max_attempts%02d=\n", i)
	}
	return []hostileText{
		{"one long value", fill(head+"retry_mode = ", "x", ""), "x"},
		{"one long header", fill("", "[", "]"+sound), "legacy -"},
		{"sections", numbered(head, "[profile q%d]\n", sound), "legacy -"},
		{"too many keys", numbered(head, "max_attempts%d=\n", sound),
			"FILE line 66, in [profile p], cannot be read: it is one key too many"},
		{"many keys and the last one", fill(head+keys.String(), "max_attempts62=\n", sound), "legacy -"},
		{"the same key, continued", fill(head, "max_attempts=7\n x\n", sound), "legacy 7@"},
		{"continuations", fill(head+"retry_mode = legacy\n", " x\n", ""), "legacy@3 -"},
	}
}

// The memory is limited, and with it what a square would take.
func TestHostileTexts(t *testing.T) {
	for _, hostile := range hostileTexts(512 << 10) {
		t.Run(hostile.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := File{Path: "FILE", Config: true}.parse(hostile.text, "p")
			runtime.ReadMemStats(&after)
			if got := describe(p, err); !strings.HasPrefix(got, hostile.want) {
				t.Errorf("got %.100q, want %q", got, hostile.want)
			}
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(16*len(hostile.text)); took > most {
				t.Errorf("took %d bytes of memory for a text of %d, want at most %d", took, len(hostile.text), most)
			}
		})
	}
}

// The limit is on different keys: each may be set any number of times.
func TestMaxKeys(t *testing.T) {
	// text returns three sections with the same keys.
	text := func(header string, keys int) string {
		var b strings.Builder
		b.WriteString(header + "\nretry_mode = legacy\n")
		for i := range keys - 1 {
			fmt.Fprintf(&b, "max_attempts%d = 1\nkey%d = 1\n", i, i)
		}
		return strings.Repeat(b.String(), 3)
	}
	const sound = "[profile default]\nmax_attempts = 7\n"
	for _, test := range []struct{ name, text, profile, want string }{
		{"as many as allowed", text("[profile p]", 64), "p", "legacy -"},
		{"one too many", text("[profile p]", 65), "p", "FILE line 129, in [profile p], cannot be read: " +
			"it is one key too many that begins with retry_mode or max_attempts; allowed are 64 different ones"},
		{"in another profile", text("[profile q]", 65) + sound, "default", "- 7"},
		{"in two sections of which one is replaced", text("[default]", 64) + sound, "default", "- 7"},
		{"below a line that cannot be read", "[profile p]\nx\n" + text("[profile p]", 65),
			"p", "FILE line 2, in [profile p], cannot be read: it has no = or :"},
		{"above a line that cannot be read", text("[profile p]", 65) + "x\n", "p",
			"FILE line 129, in [profile p], cannot be read: it is one key too many"},
	} {
		t.Run(test.name, func(t *testing.T) { check(t, test.text, test.profile, test.want) })
	}
}
