package awsconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzProfile checks what a profile may say at all, and that changes of the
// text that mean nothing change nothing.
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
		f.Add(string(data), "default", false)
	}
	f.Add("[profile q]\na = \x00\n\x00\n[profile p]\nretry_mode =\n legacy # \x00\n", "p", true)
	for _, hostile := range hostileTexts(64) {
		f.Add(hostile.text, "p", true)
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
		checkResult(t, before.Profile, before.Err, profile)

		same := func(what, text string) {
			t.Helper()
			if diff := cmp.Diff(before, parse(text)); diff != "" {
				t.Errorf("%s: -before +after %s", what, diff)
			}
		}
		const other = "unrelated-profile"
		if profile != other && !strings.Contains(before.Err, "has no [SECTION]") {
			same("another profile after it",
				text+"\n[profile "+other+"]\nretry_mode = legacy\n["+other+"]\nmax_attempts = 9\nnonsense\n")
		}
		if strings.Contains(text, "\r") || isUTF16(text) {
			return
		}
		if !strings.HasPrefix(text, "\ufeff") { // which has no meaning after white space
			same("all lines indented", "\t "+strings.ReplaceAll(text, "\n", "\n\t "))
		}
		same("CRLF", strings.ReplaceAll(text, "\n", "\r\n"))
	})
}

// checkResult checks what is true of every result.
func checkResult(t *testing.T, p Profile, fault, profile string) {
	t.Helper()
	ok := strings.HasPrefix(fault, "FILE ") && len(fault) < 1000+len(profile) && fault != "FILE cannot be read"
	if fault != "" && !ok {
		t.Errorf("got error %q", fault)
	}
	for key, v := range map[string]Value{retryModeKey: p.RetryMode, maxAttemptsKey: p.MaxAttempts} {
		if v == (Value{}) {
			continue
		}
		if !p.Found {
			t.Errorf("got %s %+v from a profile that was not found", key, v)
		}
		if strings.TrimSpace(v.Text) != v.Text || strings.ContainsAny(v.Text, "\r\n\x00") {
			t.Errorf("got %s %q", key, v.Text)
		}
		if !strings.HasPrefix(v.From, "FILE [") || !strings.HasSuffix(v.From, "] "+key) {
			t.Errorf("got %s from %q", key, v.From)
		}
		if v.ContinuedAt < 0 || v.ContinuedAt > 0 && v.Text == "" {
			t.Errorf("got %s %+v", key, v)
		}
	}
}
