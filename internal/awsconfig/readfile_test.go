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

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that does not exist, and the null device, are empty files.
func TestProfileOfNoFile(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "")
	tests := []struct {
		name, path string
		skip       bool
	}{
		{name: "no path"},
		{name: "missing", path: filepath.Join(dir, "none")},
		{name: "missing directory", path: filepath.Join(dir, "none", "none")},
		{name: "below a file", path: filepath.Join(file, ".aws", "config"), skip: runtime.GOOS == "windows"},
		{name: "null device", path: os.DevNull},
		{name: "link to the null device", path: linkTo(t, os.DevNull), skip: runtime.GOOS == "windows"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.skip {
				t.Skip("not on this system")
			}
			p, err := File{Path: test.path, Config: true}.Profile("default")
			if p != (Profile{}) || err != nil {
				t.Errorf("got %+v and error %v, want neither", p, err)
			}
		})
	}
}

func TestProfileOfUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	unreadable := write(t, filepath.Join(dir, "unreadable"), "[default]\n")
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		is         error // nil: any error of the file system
		skip       bool
	}{
		{name: "no permission", path: unreadable, is: fs.ErrPermission, skip: os.Getuid() <= 0},
		{name: "directory", path: dir},
		{name: "NUL in the path", path: "a\x00b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.skip {
				t.Skip("not on this system, or not as this user")
			}
			_, err := File{Path: test.path}.Profile("default")
			var pathError *fs.PathError
			if !errors.As(err, &pathError) || pathError.Path != test.path ||
				!strings.HasPrefix(err.Error(), "awsretry: ") {
				t.Fatalf("got error %v, want one of the file system that begins with awsretry and names %s",
					err, test.path)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got error %v, want %v in its chain", err, test.is)
			}
		})
	}
}

func TestProfileOfFileThatIsNotRegular(t *testing.T) {
	dir := t.TempDir()
	tests := []struct{ name, path, want string }{
		{"directory", dir, "it is a directory; "},
		{"link to a directory", linkTo(t, dir), "it is a directory; "},
		{"device", "/dev/zero", "it is a device; "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := os.Stat(test.path); err != nil {
				t.Skip("not on this system:", err)
			}
			_, err := File{Path: test.path}.Profile("default")
			want := "awsretry: open " + test.path + ": " + test.want +
				"a config or credentials file must be a regular file"
			if err == nil || err.Error() != want {
				t.Errorf("got error %v, want %s", err, want)
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

// linkTo returns the path of a symbolic link.
func linkTo(t *testing.T, target string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	return link
}

func TestProfileOfLargeFile(t *testing.T) {
	const head = "[p]\nretry_mode = legacy\n#"
	largest := head + strings.Repeat("x", 16<<20-len(head))
	path := filepath.Join(t.TempDir(), "credentials")
	tests := []struct{ name, text, want string }{
		{"largest", largest, "legacy -"},
		{"too large", largest + "x",
			"awsretry: " + path +
				" is larger than 16777216 bytes, the most that is read of a config or credentials file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := File{Path: write(t, path, test.text)}.Profile("p")
			if got := describe(p, err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
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
