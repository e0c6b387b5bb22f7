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
	// A profile with nearly as many keys as it may have, of the same length.
	keys := func(stem string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := range maxKeys - 1 {
			fmt.Fprintf(&b, "max_attempts%s%02d=\n", stem, i)
		}
		return b.String()
	}
	return []hostileText{
		{"one long value", fill(head+"retry_mode = ", "x", ""), "x"},
		{"one long value of quotes", fill(head+"retry_mode = ", `"`, ""), `"`},
		{"one long number", fill(head+"max_attempts = ", "0", "7\n"), "- 0"},
		{"one long blank line", fill(head+"retry_mode = legacy", " ", ""), "legacy -"},
		{"one long key", fill(head, "x", "=1"+sound), "legacy -"},
		{"one long header", fill("", "[", "]"+sound), "legacy -"},
		{"unclosed headers", fill("", "[\n", sound), "legacy -"},
		{"sections", numbered(head, "[profile q%d]\n", sound), "legacy -"},
		{"child sections", fill("[profile p", ".a", "]"+sound), "legacy -"},
		{"the profile's section", fill("", head, sound), "legacy -"},
		{"keys", numbered(head, "key%d=\n", sound), "legacy -"},
		{"too many keys", numbered(head, "max_attempts%d=\n", sound),
			"FILE line 66, in [profile p], cannot be read: it is one key too many"},
		{"many long keys", keys(strings.Repeat("x", size/maxKeys)) + sound, "legacy -"},
		{"many keys and the last one", fill(keys(""), "max_attempts62=\n", sound), "legacy -"},
		{"the same key", fill(head, "max_attempts=7\n", sound), "legacy 7"},
		{"the same key, continued", fill(head, "max_attempts=7\n x\n", sound), "legacy 7@"},
		{"auto-increment keys", fill(head, "-=\n", sound), "legacy -"},
		{"continuations", fill(head+"retry_mode = legacy\n", " x\n", ""), "legacy@3 -"},
		{"nested values", fill(head+"s3 =\n", " x=1\n", sound), "legacy -"},
		{"backslashes", fill(head, "max_attempts=\\\n", sound), `legacy \`},
		{"backquotes", fill(head, "max_attempts=`\n", sound), "legacy `"},
		{"comments", fill(head+"retry_mode = legacy", " #", ""), "legacy -"},
		{"carriage returns", fill(head+"retry_mode = legacy", "\r", ""), "legacy -"},
		{"NUL bytes", fill(head, "\x00", sound), "FILE line 2, in [profile p], cannot be read: it has no = or :"},
		{"interpolation", fill(head+"a = %(a)s%(a)s\nretry_mode = ", "%(a)s", ""), "%(a)s"},
	}
}

// BenchmarkHostileTexts shows the time; this test limits the memory.
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
		{"in a section that is replaced", text("[default]", 65) + sound, "default", "- 7"},
		{"in two sections of which one is replaced", text("[default]", 64) + sound, "default", "- 7"},
		{"below a line that cannot be read", "[profile p]\nx\n" + text("[profile p]", 65),
			"p", "FILE line 2, in [profile p], cannot be read: it has no = or :"},
		{"above a line that cannot be read", text("[profile p]", 65) + "x\n", "p",
			"FILE line 129, in [profile p], cannot be read: it is one key too many"},
	} {
		t.Run(test.name, func(t *testing.T) { check(t, test.text, test.profile, test.want) })
	}
}

// The time for a byte must not grow from one size to the next.
func BenchmarkHostileTexts(b *testing.B) {
	for _, size := range []int{100 << 10, 1 << 20, 10 << 20} {
		for _, hostile := range hostileTexts(size) {
			b.Run(fmt.Sprintf("%s/%dKiB", hostile.name, size>>10), func(b *testing.B) {
				file := File{Path: "FILE", Config: true}
				b.SetBytes(int64(len(hostile.text)))
				b.ReportAllocs()
				for b.Loop() {
					_, _ = file.parse(hostile.text, "p")
				}
			})
		}
	}
}
