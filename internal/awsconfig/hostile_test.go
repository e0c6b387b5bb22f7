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
	return []hostileText{
		{"one long value", fill(head+"retry_mode = ", "x", ""), "x"},
		{"one long header", fill("", "[", "]"+sound), "legacy -"},
		{"sections", numbered(head, "[profile q%d]\n", sound), "legacy -"},
		{"keys", numbered(head, "max_attempts%d=\n", sound), "legacy -"},
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
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(20*len(hostile.text)); took > most {
				t.Errorf("took %d bytes of memory for a text of %d, want at most %d", took, len(hostile.text), most)
			}
		})
	}
}
