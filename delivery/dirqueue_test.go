package delivery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A watchedDisk is the real one, with a look at the folder after each change,
// and a failure where one is asked for.
//
// It also keeps what would be left after a power failure: of a file's bytes
// those at its last Sync, of the folder's names those at its last syncDir.
type watchedDisk struct {
	osDisk
	dir   string
	after func(op string)       // nil: nothing
	fail  func(op string) error // nil: nothing fails

	synced  map[string][]byte // what a file had at its last Sync, by its present name
	durable map[string][]byte // the folder after a power failure
}

func watch(dir string) *watchedDisk {
	return &watchedDisk{dir: dir, synced: map[string][]byte{}, durable: map[string][]byte{}}
}

func (d *watchedDisk) step(op string, do func() error) error {
	if d.fail != nil {
		if err := d.fail(op); err != nil {
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
		d.durable = map[string][]byte{}
		for name, text := range d.synced {
			d.durable[name] = text
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

// copyDir is what a new process finds when the old one is gone: the files, and
// no locks.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// collect redrives the folder and counts what arrives.
func collect(t *testing.T, dir string) map[string]int {
	t.Helper()
	got := map[string]int{}
	_, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		got[s.Body]++
		return answerWith(200, req), nil
	}))
	if err != nil {
		t.Error(err)
	}
	return got
}

func bigBody(n int) string { return fmt.Sprintf("letter %d %s", n, strings.Repeat("x", 100<<10)) }

// The process ends at every point of writing letters: those that were taken
// arrive, whole, and nothing else but the one under way, whole.
func TestCrashesOfTheQueueLoseNothing(t *testing.T) {
	dir := t.TempDir()
	disk := watch(dir)
	q := newDirQueue(dir, disk)
	taken, points := 0, 0
	look := func(op, folder string) {
		points++
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
	}
	disk.after = func(op string) {
		look(op, copyDir(t, dir))
		power := t.TempDir()
		for name, text := range disk.durable {
			write(t, power, name, string(text))
		}
		look("a power failure after "+op, power)
	}
	for n := range 3 {
		req := post(t, "http://a.example", bigBody(n))
		if n == 2 {
			req.ContentLength = -1
		}
		if err := q.put(t.Context(), DeadLetter{Request: req}); err != nil {
			t.Fatal(err)
		}
		taken++
	}
	disk.after("everything")
	if points < 30 {
		t.Errorf("only %d points looked at", points)
	}
}

// The process ends at every point of a Redrive: what was not delivered is still
// there, and at most one letter that was delivered.
func TestCrashesOfRedriveLoseNothingAndDuplicateOne(t *testing.T) {
	dir := t.TempDir()
	disk := watch(dir)
	const letters = 4
	for n := range letters {
		if err := newDirQueue(dir, disk).put(t.Context(), DeadLetter{Request: post(t, "http://a.example", fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
	}
	delivered := map[string]int{}
	look := func(op, folder string) {
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
	}
	disk.after = func(op string) {
		look(op, copyDir(t, dir))
		power := t.TempDir()
		for name, text := range disk.durable {
			write(t, power, name, string(text))
		}
		look("a power failure after "+op, power)
	}
	r := redrive{dir: dir, disk: disk, Redriver: &Redriver{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		disk.after("nothing of the next")
		s, err := receive(req)
		delivered[s.Body]++
		disk.after("the delivery")
		if s.Body == "2" && delivered[s.Body] == 1 {
			delivered[s.Body] = 0
			return answerWith(503, req), err
		}
		return answerWith(200, req), err
	})}}
	done, err := r.run(t.Context())
	if done != (Redriven{Delivered: 3, Kept: 1}) || err == nil {
		t.Errorf("got %+v, %v", done, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
}

// A step that fails is an error, leaves no half of a letter, and does not spoil
// the letter before.
func TestDiskFailuresOfTheQueue(t *testing.T) {
	full := errors.New("disk full")
	for _, op := range []string{"create", "write", "sync", "rename", "syncDir"} {
		dir := t.TempDir()
		disk := watch(dir)
		q := newDirQueue(dir, disk)
		if err := q.put(t.Context(), DeadLetter{Request: post(t, "http://a.example", "first")}); err != nil {
			t.Fatal(err)
		}
		disk.fail = func(now string) error {
			if now == op {
				return full
			}
			return nil
		}
		err := q.put(t.Context(), DeadLetter{Request: post(t, "http://a.example", "second")})
		if !errors.Is(err, full) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want the failure and the file's name", op, err)
		}
		for _, entry := range entries(t, dir) {
			if isTemp(entry) {
				t.Errorf("%s: %s is left", op, entry)
			}
		}
		if got := collect(t, dir); got["first"] != 1 {
			t.Errorf("%s: the first letter arrived %d times", op, got["first"])
		}
	}
}

// A letter that was delivered and cannot be deleted ends the run: each further
// one would be sent twice, too.
func TestRedriveStopsWhereItCannotDelete(t *testing.T) {
	for _, op := range []string{"remove", "syncDir"} {
		dir := t.TempDir()
		queue := DirQueue(dir)
		for range 3 {
			if err := queue(t.Context(), DeadLetter{Request: post(t, "http://a.example", "x")}); err != nil {
				t.Fatal(err)
			}
		}
		disk := watch(dir)
		readOnly := errors.New("read-only")
		disk.fail = func(now string) error {
			if now == op {
				return readOnly
			}
			return nil
		}
		sent := 0
		r := redrive{dir: dir, disk: disk, Redriver: &Redriver{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			return answerWith(200, req), nil
		})}}
		done, err := r.run(t.Context())
		if !errors.Is(err, readOnly) || sent != 1 || done != (Redriven{Delivered: 1}) || !strings.Contains(err.Error(), entries(t, dir)[0][:10]) {
			t.Errorf("%s: %d sent, %+v, %v", op, sent, done, err)
		}
		if undeleted := strings.Contains(err.Error(), "could not be deleted"); undeleted != (op == "remove") || len(entries(t, dir)) != map[bool]int{true: 3, false: 2}[undeleted] {
			t.Errorf("%s: %d letters are left, and the error is %v", op, len(entries(t, dir)), err)
		}
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

func TestNamesSortByTimeAndNeverCollide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	synctest.Test(t, func(t *testing.T) { // where the clock stands still
		queue := DirQueue(dir)
		for n := range 20 {
			if err := queue(t.Context(), DeadLetter{Request: post(t, "http://a.example", fmt.Sprint(n))}); err != nil {
				t.Fatal(err)
			}
			if n%5 == 0 {
				time.Sleep(time.Hour)
			}
		}
	})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	var got []string
	Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		got = append(got, s.Body)
		return answerWith(500, req), err
	}))
	if len(got) != 20 || !slices.IsSortedFunc(got, func(a, b string) int { return len(a)*100 - len(b)*100 + strings.Compare(a, b) }) {
		t.Errorf("arrived as %v", got)
	}

	// Many queues, as many processes have, in one folder.
	var wg sync.WaitGroup
	for range 10 {
		queue := DirQueue(dir)
		wg.Go(func() {
			for range 10 {
				if err := queue(context.Background(), DeadLetter{Request: post(t, "http://a.example", "x")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(entries(t, dir)); n != 120 {
		t.Errorf("%d letters of 120", n)
	}
}

func TestQueueRefusals(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	dir := t.TempDir()
	letter := DeadLetter{Request: post(t, "http://a.example", "x")}
	if err := DirQueue(dir)(ctx, letter); !errors.Is(err, why) || len(entries(t, dir)) > 0 {
		t.Errorf("an ended context: %v", err)
	}
	if err := DirQueue("")(t.Context(), letter); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("no folder: %v", err)
	}
	write(t, dir, "file", "")
	if err := DirQueue(filepath.Join(dir, "file"))(t.Context(), letter); err == nil {
		t.Error("a file for a folder: taken")
	}
}

// A foldersDisk is the real one; it knows which folders a power failure would
// take away, and fails from the step on that it is told.
type foldersDisk struct {
	osDisk
	pending map[string]string // the folder that was made in one that was not synced since, by the latter
	left    int               // steps before a crash
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

// A letter that was taken is in a folder that outlives a crash of the machine,
// whoever made the folder, and wherever a process crashed that began to.
func TestFoldersAreDurable(t *testing.T) {
	for _, dir := range []string{"queue", "queue/", "./queue//", "a/b/queue", "a/b/queue/", "there/queue", "/a/b/queue"} {
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
				if err := newDirQueue(dir, disk).put(t.Context(), letter()); errors.Is(err, errCrash) {
					crashes++
				} else if err != nil || len(disk.pending) > 0 {
					t.Fatalf("got %v, and %v is not durable", err, disk.pending)
				}
				disk.left = 1000
				q := newDirQueue(dir, disk)
				for range 2 {
					if err := q.put(t.Context(), letter()); err != nil || len(disk.pending) > 0 {
						t.Errorf("the next process: got %v, and %v is not durable", err, disk.pending)
					}
				}
				if left := len(entries(t, dir)); left < 2 || left > 3 {
					t.Errorf("%d letters", left)
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
	q := newDirQueue(dir, disk)
	for range 2 {
		if err := q.put(t.Context(), DeadLetter{Request: post(t, "http://a.example", "x")}); err != nil || len(disk.pending) > 0 || len(entries(t, dir)) != 1 {
			t.Errorf("got %v, and %v is not durable", err, disk.pending)
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// A file system that cannot sync folders is like a system that cannot.
func TestFoldersThatCannotBeSynced(t *testing.T) {
	for _, test := range []struct {
		err     error
		ignored bool
	}{
		{syscall.EINVAL, true}, {syscall.ENOTSUP, true}, {syscall.ENOSYS, true},
		{syscall.EIO, false}, {syscall.ENOSPC, false}, {fs.ErrPermission, false},
	} {
		if err := ignoreUnsupported(&fs.PathError{Op: "sync", Path: "d", Err: test.err}); (err == nil) != test.ignored {
			t.Errorf("%v: got %v", test.err, err)
		}
	}
	if _, err := os.Stat("/proc/self"); err == nil && runtime.GOOS == "linux" {
		d, err := os.Open("/proc")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if d.Sync() == nil {
			t.Skip("/proc can be synced")
		}
		if err := (osDisk{}).syncDir("/proc"); err != nil {
			t.Errorf("got %v", err)
		}
	}
}
