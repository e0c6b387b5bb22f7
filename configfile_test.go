package awsretry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// configOf is a Source that reads one config file and no environment.
func configOf(path, profile string) Source {
	return Source{
		Profile:         profile,
		ConfigFile:      path,
		CredentialsFile: filepath.Join(filepath.Dir(path), "no-such-file"),
		Getenv:          func(string) string { return "" },
	}
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// brief is a result of Resolve as the tables write it: "adaptive 7", with "-" where a value is the default.
func brief(s Settings) string {
	mode, attempts := string(s.Mode), fmt.Sprint(s.MaxAttempts)
	if s.ModeFrom == "default" {
		mode = "-"
	}
	if s.MaxAttemptsFrom == "default" {
		attempts = "-"
	}
	return mode + " " + attempts
}

func TestConfigFiles(t *testing.T) {
	const notThere = `Source.Profile is "p"; it must be a profile that stands in FILE as [profile NAME]`
	// want is what brief says, or a part of the error, where FILE is the file's path.
	tests := []struct{ file, profile, want string }{
		{"plain", "", "adaptive 5"},
		{"plain", "default", "adaptive 5"},
		{"plain", "p", "legacy 7"},
		{"plain", "q", `Source.Profile is "q"; it must be`},
		{"plain", "profile p", `Source.Profile is "profile p"; it must be`},
		{"empty", "", "- -"},
		{"empty", "p", notThere},
		{"no_newline_header", "p", "- -"},
		{"no_newline_value", "p", "- 7"},

		{"bare_name_is_ignored", "p", notThere},
		{"profile_default_wins", "", "adaptive -"},
		{"profile_default_wins_below", "", "adaptive -"},
		{"duplicate_sections_merge", "p", "adaptive 7"},
		{"duplicate_sections_merge", "", "- 2"},
		{"section_names_trimmed", "", "legacy -"},
		{"section_names_trimmed", "p", "adaptive 7"},
		{"quoted_name_double", "p", "adaptive 7"},
		{"quoted_name_single", "p", "adaptive 7"},
		{"quoted_name_half", "p", notThere},
		{"name_all_characters", "Aß9-/.%@_:+", "adaptive -"},
		{"name_with_space_is_skipped", "my p", `Source.Profile is "my p"; it must be`},
		{"name_with_space_is_skipped", "p", notThere},
		{"name_case", "p", notThere},
		{"name_case", "", "- -"},
		{"child_section", "a.b", "- -"},
		{"other_sections", "p", "- -"},
		{"other_sections", "", "- -"},

		{"duplicate_keys_later_wins", "p", "adaptive 7"},
		{"empty_value_is_not_set", "p", "- -"},
		{"later_empty_value_wins", "p", "- 7"},
		{"key_case", "p", "adaptive 7"},
		{"key_long_s", "p", "- -"},
		{"value_long_s", "p", `retry_mode is "ſtandard"; it must be standard, adaptive or legacy`},
		{"odd_keys", "p", "- 7"},
		{"colon_is_delimiter", "p", "adaptive 7"},
		{"colon_before_equals", "p", `FILE [profile p] retry_mode is "x = adaptive"; it must be`},
		{"colon_behind_equals", "p", `FILE [profile p] retry_mode is "adaptive:x"; it must be`},

		{"nested_block", "p", "adaptive 7"},
		{"nested_block_colon", "p", "adaptive -"},
		{"nested_block_ragged", "p", "- 7"},
		{"nested_block_under_key", "p", `max_attempts is "retries = 7" and goes on in line 4, which is indented; it must be`},
		{"value_on_next_line", "p", "adaptive 7"},
		{"continued_mode", "p", `FILE [profile p] retry_mode is "standard" and goes on in line 3, which is indented; it must be`},
		{"continued_attempts", "p", `FILE [profile p] max_attempts is "1" and goes on in line 5, which is indented; it must be`},
		{"continued_twice", "p", `FILE [profile p] retry_mode is "standard" and goes on in line 3, which is indented; it must be`},
		{"continued_by_header", "p", notThere},
		{"continued_by_header", "", `[default] max_attempts is "7" and goes on in line 3`},
		{"continued_by_comment", "p", "adaptive 7"},
		{"indented_first_line", "p", "adaptive -"},
		{"indented_first_line", "", "- 7"},
		{"indented_header", "p", "adaptive 7"},
		{"indented_properties", "p", "adaptive 7"},
		{"indented_behind_a_section", "p", "adaptive -"},
		{"indented_ever_less", "p", "adaptive 7"},
		{"indented_more_again", "p", `FILE [profile p] retry_mode is "adaptive" and goes on in line 4, which is indented; it must be`},
		{"indented_sections", "p", "adaptive -"},
		{"indented_sections", "q", `FILE [profile q] max_attempts is "7" and goes on in line 5, which is indented; it must be`},
		{"indented_sections", "r", `Source.Profile is "r"; it must be`},
		{"indented_with_a_tab", "p", "- 7"},

		{"comments", "p", "adaptive 7"},
		{"comments", "q", "- 3"},
		{"comments", "", "- 2"},
		{"comment_without_space", "p", `max_attempts is "7; x"; it must be a whole number above 0`},
		{"comment_without_space_hash", "p", `retry_mode is "adaptive#x"; it must be`},
		{"comment_right_after_delimiter", "p", `retry_mode is "# adaptive"; it must be`},
		{"header_comment_with_bracket", "p", "- 7"},
		{"header_with_text_behind", "p", "- 7"},

		{"quotes_are_value", "p", `retry_mode is "\"adaptive\""; it must be`},
		{"quotes_are_value_attempts", "p", `max_attempts is "'7'"; it must be`},
		{"backquotes_are_value", "p", "retry_mode is \"`adaptive`\"; it must be"},
		{"backquote_does_not_run_on", "p", "retry_mode is \"`adaptive\"; it must be"},
		{"triple_quote_does_not_run_on", "p", `retry_mode is "\"\"\"adaptive"; it must be`},
		{"quote_overridden", "p", "adaptive 7"},
		{"backslash_is_value", "p", "adaptive 7"},
		{"backslash_in_value", "p", `retry_mode is "adaptive\\"; it must be`},
		{"interpolation_is_value", "p", `retry_mode is "%(m)s"; it must be`},
		{"interpolation_of_the_other", "p", `retry_mode is "%(max_attempts)s"; it must be`},
		{"equals_in_value", "p", `retry_mode is "= adaptive"; it must be`},

		{"no_delimiter", "p", "FILE line 3, in [profile p], cannot be read: it has no = or :;"},
		{"no_key", "p", "FILE line 3, in [profile p], cannot be read: it has no name before the =;"},
		{"no_key_colon", "p", "FILE line 3, in [profile p], cannot be read: it has no name before the :;"},
		{"unclosed_header", "p", "FILE line 3, in [profile p], cannot be read: it has no ];"},
		{"bad_lines_elsewhere", "p", "adaptive 7"},
		{"bad_lines_elsewhere", "", "- -"},
		{"bad_lines_elsewhere", "q", "line 5, in [profile q], cannot be read"},
		{"before_first_section", "p", "- -"},
		{"before_first_section", "", "- -"},

		{"mode_unknown", "p", `FILE [profile p] retry_mode is "fast"; it must be standard, adaptive or legacy`},
		{"attempts_zero", "p", `FILE [profile p] max_attempts is "0"; it must be a whole number above 0`},
		{"attempts_sign", "p", `max_attempts is "+3"; it must be`},
		{"attempts_huge", "p", `max_attempts is "99999999999999999999"; it must be`},
		{"attempts_leading_zeros", "p", "- 7"},
	}
	untested := map[string]bool{}
	files, err := filepath.Glob("testdata/config/*.ini")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		untested[f] = true
	}
	for _, test := range tests {
		t.Run(test.file+"/"+test.profile, func(t *testing.T) {
			path := filepath.Join("testdata", "config", test.file+".ini")
			delete(untested, path)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, path, test.profile, test.want)
			for name, variant := range map[string]string{
				"CRLF": strings.ReplaceAll(string(data), "\n", "\r\n"),
				"CR":   strings.ReplaceAll(string(data), "\n", "\r"),
				"BOM":  "\ufeff" + string(data),
			} {
				t.Run(name, func(t *testing.T) {
					checkConfig(t, writeFile(t, "config", variant), test.profile, test.want)
				})
			}
		})
	}
	for f := range untested {
		t.Errorf("%s is in no test", f)
	}
}

func checkConfig(t *testing.T, path, profile, want string) {
	t.Helper()
	s, err := configOf(path, profile).Resolve()
	if err == nil {
		if got := brief(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return
	}
	if got, want := err.Error(), strings.ReplaceAll(want, "FILE", path); !strings.HasPrefix(got, "awsretry: ") || !strings.Contains(got, want) {
		t.Errorf("got error %q, want %q in it", got, want)
	}
	if s != (Settings{}) {
		t.Errorf("got %+v beside an error", s)
	}
}

func TestConfigFileBytes(t *testing.T) {
	tests := []struct{ name, text, profile, want string }{
		{"NUL in a value", "[profile p]\nretry_mode = legacy\x00\n", "p", "FILE has a NUL byte; it must be UTF-8 text"},
		{"NUL in another profile", "[profile q]\na = \x00\n[profile p]\nretry_mode = legacy\n", "p", "FILE has a NUL byte"},
		{"a program", "\x7fELF\x02\x01\x01\x00\x00", "", "FILE has a NUL byte"},
		{"bytes without NUL", "\x1f\x8b\x08=\xff\n\x01\x02", "", "FILE has no [SECTION]; every line but comments must follow one, such as [default] or [profile NAME]"},
		{"settings without section", "# mine\n\nretry_mode = legacy\n", "", "FILE has no [SECTION]"},
		{"settings without section, profile", "retry_mode = legacy\n", "p", "FILE has no [SECTION]"},
		{"indented settings without section", "\n retry_mode = legacy\n", "", "FILE has no [SECTION]"},
		{"comments alone", "# mine\n\n ; [default]\n", "", "- -"},

		{"default without ]", "[default\nretry_mode = legacy\n", "", "FILE line 1, in [default], cannot be read: it has no ]; allowed are"},
		{"default without [", "\ndefault]\nretry_mode = legacy\n", "", "FILE line 2, in [default], cannot be read: it has no [; allowed are"},
		{"default without ], commented", " [ default # mine\n", "", "FILE line 1, in [default], cannot be read: it has no ]"},
		{"default without ] below a sound one", "[default]\nretry_mode = legacy\n[profile q]\n[default\n", "", "FILE line 4, in [default], cannot be read"},
		{"default without ] that is replaced", "[default\nretry_mode = legacy\n[profile default]\nretry_mode = adaptive\n", "", "adaptive -"},
		{"profile default without ]", "[default]\nretry_mode = legacy\n[profile q]\n[profile default\n", "", "FILE line 4, in [profile default], cannot be read"},
		{"profile without ]", "[profile p\nretry_mode = legacy\n", "p", "FILE line 1, in [profile p], cannot be read: it has no ]"},
		{"profile without [", "[default]\n[profile q]\nprofile p]\n", "p", "FILE line 3, in [profile p], cannot be read: it has no ["},
		{"another profile without ]", "[default]\n[profile p]\nretry_mode = legacy\n[profile r]\n[profile q\n", "p", "legacy -"},
		{"bare name without ]", "[default]\n[p\n[profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"name without brackets", "[profile q]\nprofile p\n[profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"value in brackets", "[default]\nretry_mode = legacy\n[profile q]\na = [default]\nb =\n [default\n", "", "legacy -"},

		{"Latin-1 in the profile", "[profile p]\nname = M\xfcller\nretry_mode = legacy\n", "p", "FILE line 2, in [profile p], cannot be read: it is not UTF-8 text"},
		{"Latin-1 in a comment", "[profile p]\n# M\xfcller\nretry_mode = legacy # M\xfcller\n", "p", "legacy -"},
		{"Latin-1 in another profile", "[profile q]\nname = M\xfcller\n[profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"Latin-1 in a continued property", "[profile q]\nname = M\xfcller\n [profile p]\n", "p", "must be a profile that stands in FILE"},
		{"header below a property without section", "a = b\n [profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"header below a line that cannot be read", "[profile q]\na = b\nc\n [profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"Latin-1 on the second line of a value", "[profile p]\nretry_mode =\n M\xfcller\n", "p", `retry_mode is "M\xfcller"; it must be`},
		{"UTF-16, little-endian", "\xff\xfe[\x00d\x00e\x00", "", "FILE is UTF-16 text; it must be UTF-8"},
		{"UTF-16, big-endian", "\xfe\xff\x00[\x00d\x00e", "", "FILE is UTF-16 text; it must be UTF-8"},
		{"two byte order marks", "\ufeff\ufeff[profile p]\n[profile q]\n", "p", "must be a profile that stands in FILE"},
		{"form feed and no-break space", "[profile p]\n\f\n\u00a0\nretry_mode\u00a0=\flegacy\v\n", "p", "legacy -"},
		{"no-break space is one character", "[profile p]\n s3 =\n\u00a0max_attempts = 7\n", "p", "- 7"},
		{"no-break space before a line", "[profile p]\nretry_mode = legacy\n\u00a0x\n", "p", "goes on in line 3"},
		{"CR, CRLF and LF", "[profile p]\rretry_mode = legacy\r\r\nmax_attempts = 7\n", "p", "legacy 7"},
		{"long value", "[profile p]\nretry_mode = " + strings.Repeat("é", 100) + "\n", "p", `retry_mode is "` + strings.Repeat("é", 40) + `"… (200 bytes); it must be`},
		{"long value, cut inside a letter", "[profile p]\nretry_mode = x" + strings.Repeat("é", 100) + "\n", "p", `retry_mode is "x` + strings.Repeat("é", 39) + `"… (201 bytes); it must be`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkConfig(t, writeFile(t, "config", test.text), test.profile, test.want)
		})
	}
}

// The text of a line that could not be read may be a secret that lost its =.
func TestConfigFileErrorKeepsSecrets(t *testing.T) {
	_, err := configOf("testdata/config/no_delimiter.ini", "p").Resolve()
	if err == nil || strings.Contains(err.Error(), "wJalr") {
		t.Errorf("got error %v, want one without the line's text", err)
	}
}

func TestConfigFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	unreadable := writeFile(t, "config", "[default]\n")
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		is         error // nil: no error
		skip       bool
	}{
		{name: "missing", path: filepath.Join(dir, "none")},
		{name: "missing directory", path: filepath.Join(dir, "none", "none")},
		{name: "below a file", path: filepath.Join(writeFile(t, "file", ""), ".aws", "config"), skip: runtime.GOOS == "windows"},
		{name: "null device", path: os.DevNull},
		{name: "no permission", path: unreadable, is: fs.ErrPermission, skip: os.Getuid() <= 0},
		{name: "directory", path: dir, is: errAny},
		{name: "link to the null device", path: linkTo(t, os.DevNull), skip: runtime.GOOS == "windows"},
		{name: "NUL in the path", path: "a\x00b", is: errAny},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.skip {
				t.Skip("not on this system, or not as this user")
			}
			_, err := configOf(test.path, "").Resolve()
			if test.is == nil {
				if err != nil {
					t.Errorf("got error %v", err)
				}
				return
			}
			var pathError *fs.PathError
			if !errors.As(err, &pathError) || pathError.Path != test.path || !strings.HasPrefix(err.Error(), "awsretry: ") {
				t.Fatalf("got error %v, want one of the file system that begins with awsretry and names %s", err, test.path)
			}
			if test.is != errAny && !errors.Is(err, test.is) {
				t.Errorf("got error %v, want %v in its chain", err, test.is)
			}
		})
	}
}

// linkTo returns the path of a symbolic link.
func linkTo(t *testing.T, target string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	return link
}

var errAny = errors.New("any error")

func TestConfigFileSize(t *testing.T) {
	head := "[profile p]\nretry_mode = legacy\n#"
	fits := head + strings.Repeat("x", 16<<20-len(head))
	checkConfig(t, writeFile(t, "config", fits), "p", "legacy -")
	checkConfig(t, writeFile(t, "config", fits+"x"), "p", "FILE is larger than 16777216 bytes")
}

// hostileFiles are texts of about the given size that make a careless reader's time or memory grow with the square of
// their size, or that would need a deep stack.
func hostileFiles(size int) map[string]struct{ text, want string } {
	fill := func(head, line, tail string) string {
		return head + strings.Repeat(line, size/len(line)) + tail
	}
	number := func(head, format string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	const head, sound = "[profile p]\n", "\n[profile p]\nretry_mode = legacy\n"
	return map[string]struct{ text, want string }{
		"one long value":          {fill(head+"retry_mode = ", "x", ""), `retry_mode is "xxx`},
		"one long value of quote": {fill(head+"retry_mode = ", `"`, ""), `retry_mode is "\"\"`},
		"one long number":         {fill(head+"max_attempts = ", "0", "7\n"), "- 7"},
		"one long blank line":     {fill(head+"retry_mode = legacy", " ", ""), "legacy -"},
		"one long key":            {fill(head, "x", "=1"+sound), "legacy -"},
		"one long header":         {fill("", "[", "]"+sound), "legacy -"},
		"unclosed headers":        {fill("", "[\n", sound), "legacy -"},
		"sections":                {number(head, "[profile q%d]\n") + sound, "legacy -"},
		"child sections":          {fill("[profile p", ".a", "]"+sound), "legacy -"},
		"the profile's section":   {fill("", head, sound), "legacy -"},
		"keys":                    {number(head, "key%d=\n") + sound, "legacy -"},
		"the same key":            {fill(head, "max_attempts=7\n", sound), "legacy 7"},
		"auto-increment keys":     {fill(head, "-=\n", sound), "legacy -"},
		"continuations":           {fill(head+"retry_mode = legacy\n", " x\n", ""), `retry_mode is "legacy" and goes on in line 3`},
		"nested values":           {fill(head+"s3 =\n", " x=1\n", sound), "legacy -"},
		"backslashes":             {fill(head, "a=\\\n", sound), "legacy -"},
		"backquotes":              {fill(head, "a=`\n", sound), "legacy -"},
		"comments":                {fill(head+"retry_mode = legacy", " #", ""), "legacy -"},
		"carriage returns":        {fill(head+"retry_mode = legacy", "\r", ""), "legacy -"},
		"NUL bytes":               {fill(head, "\x00", sound), "FILE has a NUL byte"},
		"interpolation":           {fill(head+"a = %(a)s%(a)s\nretry_mode = ", "%(a)s", ""), `retry_mode is "%(a)s`},
	}
}

// A reader that took memory with the square of the size would pass these bounds; BenchmarkHostileConfigFiles shows the time.
func TestHostileConfigFiles(t *testing.T) {
	for name, file := range hostileFiles(2 << 20) {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, "config", file.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			checkConfig(t, path, "p", file.want)
			runtime.ReadMemStats(&after)
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(16*len(file.text)); took > most {
				t.Errorf("took %d bytes of memory for a file of %d, want at most %d", took, len(file.text), most)
			}
		})
	}
}

func BenchmarkLoad1000Profiles(b *testing.B) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "[profile team-%d]\nregion = eu-west-1\nsso_account_id = %012d\noutput = json\ns3 =\n  max_concurrent_requests = 20\nretry_mode = adaptive\nmax_attempts = 7\n\n", i, i)
	}
	source := configOf(writeFile(b, "config", text.String()), "team-999")
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		t, err := Load(source)
		if err != nil {
			b.Fatal(err)
		}
		if diff := cmp.Diff([]any{Adaptive, 7}, []any{t.Mode, t.MaxAttempts}); diff != "" {
			b.Fatal(diff)
		}
	}
}

// The time for a byte must not grow from the first size to the second.
func BenchmarkHostileConfigFiles(b *testing.B) {
	for _, size := range []int{100 << 10, 1 << 20, 10 << 20} {
		for name, file := range hostileFiles(size) {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				source := configOf(writeFile(b, "config", file.text), "p")
				b.SetBytes(int64(len(file.text)))
				b.ReportAllocs()
				for b.Loop() {
					_, _ = source.Resolve()
				}
			})
		}
	}
}
