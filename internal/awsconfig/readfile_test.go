package awsconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestProfileOfFile(t *testing.T) {
	const head = "[default]\nretry_mode = legacy\n#"
	largest := head + strings.Repeat("x", 16<<20-len(head))
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unreadable := write("unreadable", head)
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	const mustBe = "a config or credentials file must be a regular file"
	for _, tt := range []struct {
		name, path, want string // PATH is the path
		skip             bool
	}{
		{"no path", "", "not found", false},
		{"missing", filepath.Join(dir, "none"), "not found", false},
		{"below a file", filepath.Join(write("file", ""), ".aws", "config"), "not found", runtime.GOOS == "windows"},
		{"null device", os.DevNull, "not found", false},
		{"no permission", unreadable, "open PATH: permission denied", os.Getuid() <= 0},
		{"NUL in the path", "a\x00b", "stat PATH: invalid argument", runtime.GOOS == "windows"},
		{"directory", dir, "open PATH: it is a directory; " + mustBe, false},
		{"device", "/dev/zero", "open PATH: it is a device; " + mustBe, runtime.GOOS == "windows"},
		{"largest", write("largest", largest), "legacy -", false},
		{"no section", write("no section", "secret\n"), "PATH has no [SECTION]; every line but " +
			"comments must follow one, such as [default] or [profile NAME]", false},
		{"too large", write("too large", largest+"x"), "PATH is larger than 16777216 bytes, " +
			"the most that is read of a config or credentials file", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.skip {
				t.Skip("not on this system, or not as this user")
			}
			p, err := File{Path: tt.path, Config: true}.Profile("default")
			if got, want := describe(p, err), strings.ReplaceAll(tt.want, "PATH", tt.path); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			opens := strings.HasPrefix(tt.want, "open ") || strings.HasPrefix(tt.want, "stat ")
			if pathError := new(fs.PathError); errors.As(err, &pathError) != opens || opens && pathError.Path != tt.path {
				t.Errorf("got error %v, want one of the file system: %v", err, opens)
			}
			if tt.path == unreadable && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("got error %v, want ErrPermission in its chain", err)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		fs.ModeDir | 0o700:                "a directory",
		fs.ModeNamedPipe | 0o600:          "a pipe",
		fs.ModeSocket:                     "a socket",
		fs.ModeDevice | fs.ModeCharDevice: "a device",
		fs.ModeIrregular:                  "a device",
	} {
		if got := kindOf(mode); got != want {
			t.Errorf("%v: got %s, want %s", mode, got, want)
		}
	}
}

func TestFileString(t *testing.T) {
	for want, file := range map[string]File{
		"a/b":                {Path: "a/b"},
		"~/.aws/config":      {Config: true},
		"~/.aws/credentials": {},
	} {
		if got := file.String(); got != want {
			t.Errorf("%+v: got %s, want %s", file, got, want)
		}
	}
}
