package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// write opens the file at path, writes text and keeps or abandons it.
func write(t *testing.T, path, text string, end func(*Output) error) error {
	t.Helper()
	f, err := Create(t.Context(), path, nil)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	return end(f)
}

func abandon(f *Output) error {
	f.Abandon()
	return nil
}

// checkFolder checks that a folder has these files, and no others.
func checkFolder(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(want) {
		t.Errorf("the folder has %v, want %v", files, want)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != text {
			t.Errorf("%s has %q, %v; want %q", name, got, err, text)
		}
	}
}

func TestFile(t *testing.T) {
	for name, c := range map[string]struct {
		old  string // "": no file
		mode os.FileMode
		end  func(*Output) error
		want string // "": no file
	}{
		"new":                    {"", 0, (*Output).Keep, "new"},
		"replaced":               {"old and longer", 0o750, (*Output).Keep, "new"},
		"abandoned":              {"", 0, abandon, ""},
		"abandoned over another": {"old", 0o600, abandon, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			path, want := filepath.Join(t.TempDir(), "out"), map[string]string{}
			if c.old != "" {
				create(t, path, c.old, c.mode)
			}
			if err := write(t, path, "new", c.end); err != nil {
				t.Fatal(err)
			}
			if c.want != "" {
				want["out"] = c.want
			}
			checkFolder(t, filepath.Dir(path), want)
			if c.mode == 0 {
				return
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != c.mode {
				t.Errorf("the mode is %v, want %v", info.Mode(), c.mode)
			}
		})
	}
}

// create makes a file, whatever the umask.
func create(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func TestOpenErrors(t *testing.T) {
	folder := t.TempDir()
	for path, want := range map[string]string{
		folder:                               "is a directory",
		filepath.Join(folder, "none", "out"): filepath.Join("none", "out") + ": no such file",
	} {
		if _, err := Create(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	checkFolder(t, folder, nil)
}

// A link stays a link, whether its target exists or not.
func TestLink(t *testing.T) {
	for _, c := range []struct {
		name, link, target string
		file               string // that is written; "": none
	}{
		{"to a file", "link", "store/old", "store/old"},
		{"absolute", "link", "/store/today", "store/today"}, // within the folder
		{"relative", "link", "store/today", "store/today"},
		{"out of a link", "latest/link", "../today", "store/today"}, // latest leads to store/new
		{"to another link", "link", "other", "store/today"},         // other leads to store/today
		{"to no folder", "link", "none/today", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			t.Chdir(folder)
			if filepath.IsAbs(c.target) {
				c.target = filepath.Join(folder, c.target)
			}
			err := errors.Join(os.MkdirAll("store/new", 0o700), os.Symlink("store/new", "latest"),
				os.Symlink("store/today", "other"), os.Symlink(c.target, c.link))
			if err != nil {
				t.Skip(err)
			}
			create(t, "store/old", "old", 0o600)
			err = write(t, c.link, "new", (*Output).Keep)
			if info, err := os.Lstat(c.link); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("the link is %v, %v", info, err)
			}
			if c.file == "" {
				if err == nil {
					t.Error("got no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(c.file); string(text) != "new" {
				t.Errorf("%s has %q, %v", c.file, text, err)
			}
		})
	}
}

func TestDevice(t *testing.T) {
	if _, err := os.Stat(os.DevNull); err != nil {
		t.Skip(err)
	}
	err := write(t, os.DevNull, "text", (*Output).Keep)
	if info, statErr := os.Stat(os.DevNull); err != nil || statErr != nil || info.Mode().IsRegular() {
		t.Errorf("got error %v, and %s is %v, %v", err, os.DevNull, info, statErr)
	}
}

// failing is a pending file that cannot take its place.
type failing struct {
	pending
	err error
}

func (f failing) CloseAtomicallyReplace() error { return f.err }

func TestKeepFails(t *testing.T) {
	busy := &os.LinkError{Op: "rename", Err: syscall.EBUSY} // as of a mount point
	open := func(t *testing.T, path string, err error) *Output {
		create(t, path, "old and longer", 0o600)
		f, openErr := Create(t.Context(), path, nil)
		if openErr != nil {
			t.Fatal(openErr)
		}
		f.pending = failing{f.pending, err}
		io.WriteString(f, "new")
		return f
	}
	t.Run("the file is overwritten", func(t *testing.T) {
		folder := t.TempDir()
		if err := open(t, filepath.Join(folder, "out"), busy).Keep(); err != nil {
			t.Error(err)
		}
		checkFolder(t, folder, map[string]string{"out": "new"})
	})
	t.Run("the file cannot be overwritten", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "out")
		f := open(t, path, busy)
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		err := f.Keep()
		var left *LeftError
		if !errors.As(err, &left) {
			t.Fatalf("got error %v", err)
		}
		text, readErr := os.ReadFile(left.Path)
		if string(text) != "new" || !strings.Contains(err.Error(), "the new content is in "+left.Path) {
			t.Errorf("%s has %q, %v: %v", left.Path, text, readErr, err)
		}
	})
	t.Run("the new content is not complete", func(t *testing.T) {
		folder, full := t.TempDir(), errors.New("no space left on device")
		if err := open(t, filepath.Join(folder, "out"), full).Keep(); err != full {
			t.Errorf("got error %v, want %v", err, full)
		}
		checkFolder(t, folder, map[string]string{"out": "old and longer"})
	})
}
