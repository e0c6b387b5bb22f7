package letters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A foldersDisk is the real one until a crash. It knows which folders a power
// failure would take away.
type foldersDisk struct {
	osDisk
	pending map[string]string // by parent, the folder in it that was made after the parent was last synced
	left    int               // steps before the crash
}

var errCrash = errors.New("crash")

func (d *foldersDisk) step() error {
	if d.left--; d.left < 0 {
		return errCrash
	}
	return nil
}

func (d *foldersDisk) mkdir(path string) error {
	if err := d.step(); err != nil {
		return err
	}
	if err := d.osDisk.mkdir(path); err != nil {
		return err
	}
	made := realPath(path)
	if above := filepath.Dir(made); d.pending[filepath.Dir(above)] == above {
		return fmt.Errorf("%s was made in a folder that is not durable", path)
	}
	d.pending[filepath.Dir(made)] = made
	return nil
}

func realPath(path string) string {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		panic(err)
	}
	if path, err = filepath.Abs(path); err != nil {
		panic(err)
	}
	return path
}

func (d *foldersDisk) syncDir(dir string) error {
	if err := d.step(); err != nil {
		return err
	}
	delete(d.pending, realPath(dir))
	return d.osDisk.syncDir(dir)
}

// A letter that was taken is in a folder that survives a crash of the machine,
// also if another process made the folder or crashed while it did.
func TestFoldersAreDurable(t *testing.T) {
	for _, dir := range []string{
		"queue", "queue/", "./queue//", "a/b/queue", "a/b/queue/", "there/queue", "/a/b/queue",
	} {
		crashes := 0
		for before := range 20 {
			t.Run(fmt.Sprintf("%s after %d", dir, before), func(t *testing.T) {
				root := t.TempDir()
				t.Chdir(root)
				dir := dir
				if dir[0] == '/' {
					dir = root + dir
				}
				if err := os.Mkdir("there", 0o700); err != nil {
					t.Fatal(err)
				}
				disk := &foldersDisk{pending: map[string]string{}, left: before}
				letter := func() DeadLetter { return DeadLetter{Request: post(t, "http://a.example", "x")} }
				if err := (&Dir{Path: dir}).put(t.Context(), disk, letter()); errors.Is(err, errCrash) {
					crashes++
				} else if err != nil || len(disk.pending) > 0 {
					t.Fatalf("got %v, and %v is not durable", err, disk.pending)
				}
				disk.left = 1000
				q := &Dir{Path: dir}
				for range 2 {
					if err := q.put(t.Context(), disk, letter()); err != nil || len(disk.pending) > 0 {
						t.Errorf("the next process: got %v, and %v is not durable", err, disk.pending)
					}
				}
				if n := len(entries(t, dir)); n < 2 || n > 3 {
					t.Errorf("%d letters", n)
				}
				info, err := os.Stat(dir)
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the folder: %v, %v", info, err)
				}
			})
		}
		if crashes < 2 {
			t.Errorf("%s: %d crashes", dir, crashes)
		}
	}
}

// The folder may go away and come back between two letters.
func TestFolderThatWentAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "queue")
	disk := &foldersDisk{pending: map[string]string{}, left: 1000}
	q := &Dir{Path: dir}
	for range 2 {
		err := q.put(t.Context(), disk, DeadLetter{Request: post(t, "http://a.example", "x")})
		if err != nil || len(disk.pending) > 0 || len(entries(t, dir)) != 1 {
			t.Errorf("got %v, and %v is not durable", err, disk.pending)
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
	}
}
