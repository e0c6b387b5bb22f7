package awsconfig

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// describe returns a result as the tables write it: "adaptive 7", with "-" for
// a setting that is not set and "7@4" for a value that line 4 continues; "not
// found"; or the error.
func describe(p Profile, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !p.Found:
		return "not found"
	}
	value := func(v Value) string {
		text := v.Text
		if text == "" {
			text = "-"
		}
		if v.ContinuedAt != 0 {
			text += "@" + strconv.Itoa(v.ContinuedAt)
		}
		return text
	}
	return value(p.RetryMode) + " " + value(p.MaxAttempts)
}

// badLine is how the tables write the error of a line: "2 [profile p]: it has".
var badLine = regexp.MustCompile(`^(\d+) (\[.*\]):`)

// check parses the text as a config file. An error needs only to begin with
// want.
func check(t *testing.T, text, profile, want string) {
	t.Helper()
	want = badLine.ReplaceAllString(want, "FILE line $1, in $2, cannot be read:")
	p, err := File{Path: "FILE", Config: true}.parse(text, profile)
	if got := describe(p, err); got != want && (err == nil || !strings.HasPrefix(got, want)) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConfigFiles(t *testing.T) {
	tests := []struct{ file, profile, want string }{
		{"plain", "default", "adaptive 5"},
		{"plain", "p", "legacy 7"},
		{"plain", "", "not found"},
		{"empty", "default", "not found"},
		{"no_newline_value", "p", "- 7"},

		{"bare_name_is_ignored", "p", "not found"},
		{"profile_default_wins", "default", "adaptive -"},
		{"profile_default_wins_below", "default", "adaptive -"},
		{"duplicate_sections_merge", "p", "adaptive 7"},
		{"section_names_trimmed", "p", "adaptive 7"},
		{"quoted_name_double", "p", "adaptive 7"},
		{"quoted_name_single", "p", "adaptive 7"},
		{"name_all_characters", "Aß9-/.%@_:+", "adaptive -"},
		{"name_with_space", "my p", "legacy -"},
		{"name_case", "p", "not found"},
		{"child_section", "a.b", "- -"},
		{"other_sections", "p", "- -"},

		{"duplicate_keys_later_wins", "p", "adaptive 7"},
		{"later_empty_value_wins", "p", "- 7"},
		{"key_case", "p", "Adaptive 7"},
		{"value_long_s", "p", "ſtandard -"},
		{"odd_keys", "p", "- 7"},
		{"colon_is_delimiter", "p", "adaptive 7"},
		{"colon_before_equals", "p", "x = adaptive 7"},

		{"nested_block", "p", "adaptive 7"},
		{"nested_block_under_key", "p", "- -@3"},
		{"value_on_next_line", "p", "-@5 -@7"},
		{"continued_attempts", "p", "- 1@5"},
		{"continued_twice", "p", "standard@3 -"},
		{"continued_by_header", "p", "3 [profile p]: it is indented deeper than line 2, so that it is part of that value; allowed"},
		{"continued_by_header", "default", "legacy 7@3"},
		{"indented_first_line", "p", "adaptive -"},
		{"indented_ever_less", "p", "adaptive 7"},
		{"indented_more_again", "p", "adaptive@4 -"},
		{"indented_sections", "p", "adaptive -"},
		{"indented_sections", "q", "- 7@5"},

		{"comments", "p", "adaptive 7"},
		{"comment_without_space", "p", "- 7; x"},
		{"comment_right_after_delimiter", "p", "# adaptive -"},
		{"header_with_text_behind", "p", "- 7"},

		{"quotes_are_value", "p", `"adaptive" -`},
		{"backquote_does_not_run_on", "p", "`adaptive 7"},
		{"triple_quote_does_not_run_on", "p", `"""adaptive 7`},
		{"backslash_in_value", "p", `adaptive\ 7`},
		{"interpolation_is_value", "p", "%(m)s -"},
		{"equals_in_value", "p", "= adaptive -"},

		{"no_delimiter", "p", "3 [profile p]: it has no = or :;"},
		{"no_key", "p", "3 [profile p]: it has no name before the =;"},
		{"unclosed_header", "p", "3 [profile p]: it has no ];"},
		{"bad_lines_elsewhere", "p", "adaptive 7"},
		{"bad_lines_elsewhere", "default", "not found"},
		{"bad_lines_elsewhere", "q", "5 [profile q]: it has no = or :;"},
		{"before_first_section", "p", "- -"},

		// What a setting's value may be is for the caller to decide.
		{"attempts_huge", "p", "- 99999999999999999999"},
	}
	untested := make(map[string]bool)
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
			text := string(data)
			check(t, text, test.profile, test.want)
			for name, variant := range map[string]string{
				"CRLF": strings.ReplaceAll(text, "\n", "\r\n"),
				"CR":   strings.ReplaceAll(text, "\n", "\r"),
				"BOM":  "\ufeff" + text,
			} {
				t.Run(name, func(t *testing.T) { check(t, variant, test.profile, test.want) })
			}
		})
	}
	for f := range untested {
		t.Errorf("%s is in no test", f)
	}
}

func TestConfigText(t *testing.T) {
	for _, test := range []struct{ name, text, profile, want string }{
		{"NUL in a value", "[profile p]\nretry_mode = legacy\x00\n", "p", "2 [profile p]: it has a NUL byte; allowed are"},
		{"NUL on the second line of a value", "[profile p]\nretry_mode =\n leg\x00acy\n", "p", "-@3 -"},
		{"NUL in a comment", "[profile p]\n# \x00\nretry_mode = legacy # \x00\n", "p", "legacy -"},
		{"NUL in another profile", "[profile q]\na = \x00\n\x00\n[profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"NUL before the first section", "\x00\x00\n[profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"bytes without NUL", "\x1f\x8b\x08=\xff\n\x01\x02", "default",
			"FILE has no [SECTION]; every line but comments must follow one, such as [default] or [profile NAME]"},
		{"settings without section", "# mine\n\nretry_mode = legacy\n", "default", "FILE has no [SECTION]"},
		{"comments alone", "# mine\n\n ; [default]\n", "default", "not found"},

		{"default without ]", "[default\nretry_mode = legacy\n", "default", "1 [default]: it has no ]; allowed are"},
		{"default without [", "\ndefault]\nretry_mode = legacy\n", "default", "2 [default]: it has no [; allowed are"},
		{"default without ], commented", " [ default # mine\n", "default", "1 [default]: it has no ]"},
		{"default without ] that is replaced",
			"[default\nretry_mode = legacy\n[profile default]\nretry_mode = adaptive\n", "default", "adaptive -"},
		{"default without ] below the section that replaces it",
			"[profile default]\nretry_mode = adaptive\n[default\nretry_mode = legacy\n", "default", "adaptive -"},
		{"profile without ]", "[profile p\nretry_mode = legacy\n", "p", "1 [profile p]: it has no ]"},
		{"profile without [", "[default]\n[profile q]\nprofile p]\n", "p", "3 [profile p]: it has no ["},
		{"name without brackets", "[profile q]\nprofile p\n[profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"value in brackets", "[default]\nretry_mode = legacy\n[profile q]\na = [default]\nb =\n [default\n",
			"default", "legacy -"},
		{"profile default again",
			"[profile default]\nretry_mode = adaptive\n[default]\nretry_mode = legacy\n" +
				"[profile default]\nmax_attempts = 7\n",
			"default", "adaptive 7"},
		{"setting below a value", "[default]\nregion = x\n\tretry_mode = adaptive\n", "default",
			"3 [default]: it is indented deeper than line 2, so that it is part of that value; allowed are"},
		{"setting below a continued value", "[default]\nregion = x\n\n y\n # z\n  Retry_Mode: adaptive\n", "default",
			"6 [default]: it is indented deeper than line 2"},
		{"setting in a block", "[default]\ns3 = # mine\n a = b\n max_attempts = 7\n", "default", "- -"},
		{"setting below another profile's value", "[default]\n[profile q]\na = b\n max_attempts = 7\n", "default", "- -"},
		{"other key below a value", "[default]\na = b\n max_attempts2 = 7\n max_attempts\n", "default", "- -"},
		{"header in a block", "[profile q]\ns3 =\n [profile p]\nretry_mode = legacy\n", "p",
			"3 [profile p]: it is indented deeper than line 2"},
		{"other header below a value", "[profile q]\na = b\n [profile r]\n[profile p]\nretry_mode = legacy\n",
			"p", "legacy -"},

		{"Latin-1 in the profile", "[profile p]\nname = M\xfcller\nM\xfcller = \x00\nretry_mode = legacy\n", "p", "legacy -"},
		{"Latin-1 in a setting", "[profile p]\nretry_mode = M\xfcller\n", "p", "2 [profile p]: it is not UTF-8 text"},
		{"Latin-1 in a comment", "[profile p]\n# M\xfcller\nretry_mode = legacy # M\xfcller\n", "p", "legacy -"},
		{"Latin-1 in a continued property", "[profile p]\nname = M\xfcller\n M\xfcller\n", "p", "- -"},
		{"Latin-1 on the second line of a value", "[profile p]\nretry_mode =\n M\xfcller\n", "p", "-@3 -"},
		{"header below a property without section", "a = b\n [profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"header below a line that cannot be read",
			"[profile q]\na = b\nc\n [profile p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"UTF-16, little-endian", "\xff\xfe[\x00d\x00e\x00", "default", "FILE is UTF-16 text; it must be UTF-8"},
		{"UTF-16, big-endian", "\xfe\xff\x00[\x00d\x00e", "default", "FILE is UTF-16 text; it must be UTF-8"},
		{"UTF-16 without a mark, little-endian", "[\x00d\x00e\x00", "default", "FILE is UTF-16 text; it must be UTF-8"},
		{"UTF-16 without a mark, big-endian", "\x00[\x00d\x00e", "default", "FILE is UTF-16 text; it must be UTF-8"},
		{"form feed and no-break space", "[profile p]\n\f\n\u00a0\nretry_mode\u00a0=\flegacy\v\n", "p", "legacy -"},
		{"no-break space is one character", "[profile p]\n s3 =\n\u00a0max_attempts = 7\n", "p", "- 7"},
		{"a setting's block", "[profile p]\nretry_mode =\n a = 1\n b = 2\nmax_attempts = 7\n x\n", "p", "-@3 7@6"},
		{"a letter that is a k in lower case", "[profile p]\nmax_attempts\u212a = 7\n", "p", "- -"},
	} {
		t.Run(test.name, func(t *testing.T) { check(t, test.text, test.profile, test.want) })
	}
}

// In the credentials file, the word profile precedes no profile's name.
func TestCredentialsText(t *testing.T) {
	for _, test := range []struct{ name, text, profile, want string }{
		{"name", "[p]\nretry_mode = legacy\n", "p", "legacy -"},
		{"name with a space", "[my p]\nretry_mode = legacy\n", "my p", "legacy -"},
		{"name in quotes", "['p']\nretry_mode = legacy\n", "p", "not found"},
		{"name with the word", "[profile p]\nretry_mode = legacy\n", "p", "not found"},
		{"the word as a name", "[profile]\nretry_mode = legacy\n", "profile", "legacy -"},
		{"name of a section that ini.v1 always has", "[DEFAULT]\nretry_mode = legacy\n", "DEFAULT", "legacy -"},
		{"unreadable line", "[p]\nsecret\n", "p", "FILE line 2, in [p], cannot be read: it has no = or :; " +
			"allowed are NAME = VALUE, NAME: VALUE, [SECTION], a line that begins with # or ;, " +
			"and under a value the lines indented deeper than it that continue it"},
		{"no section", "secret\n", "p",
			"FILE has no [SECTION]; every line but comments must follow one, such as [default] or [NAME]"},
	} {
		p, err := File{Path: "FILE"}.parse(test.text, test.profile)
		if got := describe(p, err); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestFrom(t *testing.T) {
	const text = "[profile p]\nRetry_Mode = legacy\n[ p ]\nmax_attempts = 7\n 8\n"
	for _, test := range []struct {
		name string
		file File
		want Profile
	}{
		{"config", File{"a/config", true},
			Profile{Found: true, RetryMode: Value{Text: "legacy", From: "a/config [profile p] retry_mode", Line: 2}}},
		{"credentials", File{"b", false},
			Profile{Found: true, MaxAttempts: Value{Text: "7", From: "b [p] max_attempts", Line: 4, ContinuedAt: 5}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.file.parse(text, "p")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}
}
