package letters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// A letter that was taken is in a folder that survives a crash of the machine,
// also if another process made the folder or crashed while it did.
func TestFoldersAreDurable(t *testing.T) {
	errCrash := errors.New("crash")
	for _, dir := range []string{"queue", "./queue//", "a/b/queue/", "there/queue", "/a/b/queue"} {
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
				disk, steps := watch(dir), 0
				disk.before = func(string) error {
					if steps++; steps > before {
						return errCrash
					}
					return nil
				}
				letter := DeadLetter{Request: httpfake.Request(t, t.Context(), "GET", nil)}
				if err := (&Dir{Path: dir}).put(t.Context(), disk, letter); errors.Is(err, errCrash) {
					crashes++
				} else if err != nil || len(disk.pending) > 0 {
					t.Fatalf("got %v, and %v is not durable", err, disk.pending)
				}
				disk.before = nil
				q := &Dir{Path: dir}
				for range 2 {
					if err := q.put(t.Context(), disk, letter); err != nil || len(disk.pending) > 0 {
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
	disk := watch(dir)
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
