package letters

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// A watchedDisk is the real one, whose steps can be watched and made to fail.
//
// It also keeps what a power failure would leave: a file's bytes as of its last
// Sync, the folder's names as of its last syncDir.
type watchedDisk struct {
	osDisk
	dir    string
	before func(op string) error // its error is that of the operation; nil: not called
	after  func(op string)       // nil: not called

	synced  map[string][]byte // the files as of their last Sync
	durable map[string][]byte // the folder after a power failure
	pending map[string]string // by parent, the folder in it that was made after the parent was last synced
}

func watch(dir string) *watchedDisk {
	return &watchedDisk{
		dir: dir, synced: map[string][]byte{}, durable: map[string][]byte{}, pending: map[string]string{},
	}
}

// failing returns a before that fails in one operation.
func failing(op string, err error) func(string) error {
	return func(step string) error {
		if step == op {
			return err
		}
		return nil
	}
}

func (d *watchedDisk) step(op string, do func() error) error {
	if d.before != nil {
		if err := d.before(op); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if d.after != nil {
		d.after(op)
	}
	return nil
}

func (d *watchedDisk) mkdir(path string) error {
	return d.step("mkdir", func() error {
		if err := d.osDisk.mkdir(path); err != nil {
			return err
		}
		made := realPath(path)
		if above := filepath.Dir(made); d.pending[filepath.Dir(above)] == above {
			return fmt.Errorf("%s was made in a folder that is not durable", path)
		}
		d.pending[filepath.Dir(made)] = made
		return nil
	})
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

func (d *watchedDisk) create(path string) (f diskFile, err error) {
	err = d.step("create", func() error {
		f, err = d.osDisk.create(path)
		d.synced[filepath.Base(path)] = nil
		return err
	})
	return &watchedFile{f, filepath.Base(path), d}, err
}

func (d *watchedDisk) rename(from, to string) error {
	return d.step("rename", func() error {
		d.synced[filepath.Base(to)] = d.synced[filepath.Base(from)]
		delete(d.synced, filepath.Base(from))
		return d.osDisk.rename(from, to)
	})
}

func (d *watchedDisk) remove(path string) error {
	return d.step("remove", func() error {
		delete(d.synced, filepath.Base(path))
		return d.osDisk.remove(path)
	})
}

func (d *watchedDisk) syncDir(dir string) error {
	return d.step("syncDir", func() error {
		delete(d.pending, realPath(dir))
		if dir == d.dir {
			d.durable = maps.Clone(d.synced)
		}
		return d.osDisk.syncDir(dir)
	})
}

type watchedFile struct {
	diskFile
	name string
	disk *watchedDisk
}

func (f *watchedFile) Write(p []byte) (n int, err error) {
	half := len(p) / 2 // a crash can be between any two bytes
	for _, part := range [][]byte{p[:half], p[half:]} {
		err = f.disk.step("write", func() error {
			m, err := f.diskFile.Write(part)
			n += m
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *watchedFile) Sync() error {
	return f.disk.step("sync", func() error {
		text, err := os.ReadFile(filepath.Join(f.disk.dir, f.name))
		f.disk.synced[f.name] = text
		return errors.Join(err, f.diskFile.Sync())
	})
}

// lookAfterEach makes the disk call look after each change, with the folders
// that a crash of the process and a power failure would leave.
func (d *watchedDisk) lookAfterEach(t *testing.T, look func(op, folder string)) {
	d.after = func(op string) {
		crashed := t.TempDir() // a copy, without the locks
		if err := os.CopyFS(crashed, os.DirFS(d.dir)); err != nil {
			t.Fatal(err)
		}
		look(op, crashed)
		failed := t.TempDir()
		for name, text := range d.durable {
			write(t, failed, name, string(text))
		}
		look(op+" and a power failure", failed)
	}
}

func bigBody(n int) string { return fmt.Sprintf("letter %d %s", n, strings.Repeat("x", 100<<10)) }

// Wherever the process ends while it writes letters, those that were taken
// arrive whole. Besides them only the one that is being written may arrive,
// whole too.
func TestCrashesOfTheQueueLoseNothing(t *testing.T) {
	dir := t.TempDir()
	disk := watch(dir)
	q := &Dir{Path: dir}
	taken, looks := 0, 0
	disk.lookAfterEach(t, func(op, folder string) {
		looks++
		got := collect(t, folder)
		for n := range taken {
			if got[bigBody(n)] != 1 {
				t.Errorf("after %s of letter %d: letter %d arrived %d times", op, taken, n, got[bigBody(n)])
			}
			delete(got, bigBody(n))
		}
		delete(got, bigBody(taken))
		for body := range got {
			t.Errorf("after %s of letter %d: %.20q arrived, of %d bytes", op, taken, body, len(body))
		}
	})
	for n := range 3 {
		req := post(t, "http://a.example", bigBody(n))
		if n == 2 {
			req.ContentLength = -1
		}
		put(t, q, disk, req)
		taken++
	}
	disk.after("everything")
	if looks < 30 {
		t.Errorf("the folder was looked at %d times", looks)
	}
}

// Wherever the process ends while it redrives, all that was not delivered is
// still there, and at most one letter that was.
func TestCrashesOfRedriveLoseNothingAndDuplicateOne(t *testing.T) {
	dir := t.TempDir()
	disk := watch(dir)
	const letters = 4
	for n := range letters {
		req := post(t, "http://a.example", fmt.Sprint(n))
		put(t, &Dir{Path: dir}, disk, req)
	}
	delivered := map[string]int{}
	disk.lookAfterEach(t, func(op, folder string) {
		again := collect(t, folder)
		duplicates := 0
		for n := range letters {
			body := fmt.Sprint(n)
			if delivered[body]+again[body] == 0 {
				t.Errorf("after %s: letter %d is lost", op, n)
			}
			duplicates += delivered[body] + again[body] - 1
		}
		if duplicates > 1 {
			t.Errorf("after %s: %d duplicates", op, duplicates)
		}
	})
	base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		disk.after("the deletion of the letter before")
		s, err := receive(req)
		delivered[s.Body]++
		disk.after("the delivery")
		if s.Body == "2" && delivered[s.Body] == 1 {
			delivered[s.Body] = 0
			return respond(503, req), err
		}
		return respond(200, req), err
	})
	done, err := (&Dir{Path: dir}).redrive(t.Context(), disk, base, RedriveOptions{})
	if done != (Counts{Delivered: 3, Kept: 1}) || err == nil {
		t.Errorf("got %+v, %v", done, err)
	}
	if left := entries(t, dir); len(left) != 1 {
		t.Errorf("%q is left", left)
	}
}

// A step that fails is an error. It leaves no half of a letter, and the letter
// before as it is.
func TestDiskFailuresOfTheQueue(t *testing.T) {
	full := errors.New("disk full")
	for _, op := range []string{"create", "write", "sync", "rename", "syncDir"} {
		t.Run(op, func(t *testing.T) {
			dir := t.TempDir()
			disk, q := watch(dir), &Dir{Path: dir}
			put(t, q, disk, post(t, "http://a.example", "first"))
			disk.before = failing(op, full)
			err := q.put(t.Context(), disk, DeadLetter{Request: post(t, "http://a.example", "second")})
			if !errors.Is(err, full) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want the failure and the file's name", err)
			}
			if left := entries(t, dir); slices.ContainsFunc(left, isTemp) {
				t.Errorf("%q is left", left)
			}
			if got := collect(t, dir); got["first"] != 1 {
				t.Errorf("the first letter arrived %d times", got["first"])
			}
		})
	}
}

// A letter that was delivered and cannot be deleted ends the run: any further
// one might be sent twice too.
func TestRedriveStopsIfItCannotDelete(t *testing.T) {
	readOnly := errors.New("read-only")
	for _, tt := range []struct {
		op   string
		want string
		left int
	}{
		{"remove", "could not be deleted", 3},
		{"syncDir", "after a crash of the machine it may be there", 2},
	} {
		t.Run(tt.op, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, "1", "2", "3")
			oldest := entries(t, dir)[0]
			disk := watch(dir)
			disk.before = failing(tt.op, readOnly)
			done, err := (&Dir{Path: dir}).redrive(t.Context(), disk, httpfake.Base(ok), RedriveOptions{})
			if !errors.Is(err, readOnly) || !strings.Contains(err.Error(), oldest) ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if left := len(entries(t, dir)); done != (Counts{Delivered: 1}) || left != tt.left {
				t.Errorf("%+v, %d are left", done, left)
			}
		})
	}
}
