package awsretry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzConfigFile(f *testing.F) {
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
	for _, file := range hostileFiles(64) {
		f.Add(file.text, "p", true)
	}
	f.Fuzz(func(t *testing.T, text, profile string, isConfig bool) {
		type result struct {
			mode       Mode
			attempts   int
			modeFrom   string
			countFrom  string
			modeError  string
			countError string
			fileError  string
			found      bool
		}
		parse := func(text string) (r result) {
			settings, err := sharedFile{path: "file", isConfig: isConfig}.parse(text, profile)
			r.found, r.fileError = settings.found, errorText(err)
			r.mode, r.modeFrom, err = settings.retryMode.mode()
			r.modeError = errorText(err)
			r.attempts, r.countFrom, err = settings.maxAttempts.maxAttempts(Standard)
			r.countError = errorText(err)
			return r
		}
		before := parse(text)
		if before.modeError == "" && (before.modeFrom == "" || before.mode != Standard && before.mode != Adaptive && before.mode != Legacy) ||
			before.countError == "" && (before.countFrom == "" || before.attempts < 1) {
			t.Errorf("%+v makes no sense", before)
		}
		for _, e := range []string{before.modeError, before.countError, before.fileError} {
			if e != "" && (!strings.HasPrefix(e, "awsretry: ") || len(e) > 1000+len(profile)) {
				t.Errorf("got error %q", e)
			}
		}
		if set := before.modeFrom != "default" || before.countFrom != "default"; !before.found && set {
			t.Errorf("got %+v from a profile that is not there", before)
		}

		same := func(what, text string) {
			t.Helper()
			if diff := cmp.Diff(before, parse(text), cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("%s: -before +after %s", what, diff)
			}
		}
		const other = "unrelated-profile"
		if profile != other && !strings.Contains(before.fileError, "has no [SECTION]") {
			same("another profile behind", text+"\n[profile "+other+"]\nretry_mode = legacy\n["+other+"]\nmax_attempts = 9\nnonsense\n")
		}
		if strings.Contains(text, "\r") || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
			return
		}
		if !strings.HasPrefix(text, "\ufeff") { // which counts at the file's beginning alone
			same("all lines indented", "\t "+strings.ReplaceAll(text, "\n", "\n\t "))
		}
		same("CRLF", strings.ReplaceAll(text, "\n", "\r\n"))
		if before.modeError == "" && before.countError == "" && before.fileError == "" { // their line numbers would change
			same("comments between the lines", strings.ReplaceAll(text, "\n", "\n  # retry_mode = fast\n; [profile p]\n\n"))
			same("colons for equals signs", withColons(text))
			if first, _, _ := strings.Cut(text, "\n"); profile != other && strings.HasPrefix(first, "[") && strings.Contains(first, "]") {
				same("another profile before", "[profile "+other+"]\nmax_attempts = 9\n["+other+"]\nretry_mode = fast\nnonsense\n"+text)
			}
		}
	})
}

// withColons writes each property, and each line that only could be one, with a colon where it has an equals sign.
func withColons(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		end := strings.IndexAny(line, "=:")
		if end >= 0 && line[end] == '=' && !strings.Contains(line[:end], "[") { // brackets: a : can stand in a profile's name
			lines[i] = line[:end] + ":" + line[end+1:]
		}
	}
	return strings.Join(lines, "\n")
}
