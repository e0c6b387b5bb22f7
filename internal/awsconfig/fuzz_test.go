package awsconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzProfile checks what a profile may say at all, and that another profile
// after it, or line feeds with carriage returns, change nothing.
func FuzzProfile(f *testing.F) {
	files, err := filepath.Glob("testdata/config/*.ini")
	if err != nil || len(files) == 0 {
		f.Fatal("no files to begin with", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "p", true)
	}
	f.Fuzz(func(t *testing.T, text, profile string, isConfig bool) {
		type result struct {
			Profile Profile
			Err     string
		}
		parse := func(text string) (r result) {
			p, err := File{Path: "FILE", Config: isConfig}.parse(text, profile)
			if err != nil {
				return result{Err: err.Error()}
			}
			return result{Profile: p}
		}
		before := parse(text)
		if before.Err != "" && (!strings.HasPrefix(before.Err, "FILE ") || len(before.Err) > 1000+len(profile)) {
			t.Errorf("got error %q", before.Err)
		}
		for _, v := range []Value{before.Profile.RetryMode, before.Profile.MaxAttempts} {
			if strings.TrimSpace(v.Text) != v.Text || strings.ContainsAny(v.Text, "\r\n\x00") ||
				v != (Value{}) && !before.Profile.Found {
				t.Errorf("got %+v", before.Profile)
			}
		}

		const other = "unrelated-profile"
		if profile != other && !strings.Contains(before.Err, "has no [SECTION]") {
			after := text + "\n[profile " + other + "]\nretry_mode = legacy\n[" + other + "]\nmax_attempts = 9\nnonsense\n"
			if diff := cmp.Diff(before, parse(after)); diff != "" {
				t.Errorf("another profile after it: -before +after %s", diff)
			}
		}
		if !strings.Contains(text, "\r") && !isUTF16(text) {
			if diff := cmp.Diff(before, parse(strings.ReplaceAll(text, "\n", "\r\n"))); diff != "" {
				t.Errorf("CRLF: -before +after %s", diff)
			}
		}
	})
}
