package letters

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// A tracedDisk is the real one. It records the steps, and can fail in one of
// them. The order of the steps is what makes letters survive a crash of the
// process or of the machine between any two of them.
type tracedDisk struct {
	osDisk
	failing string // the operation that returns errDisk
	steps   []string
}

var (
	errDisk    = errors.New("disk full")
	letterName = regexp.MustCompile(`[^/]*\.letter`)
)

// step records an operation and does it.
func (d *tracedDisk) step(do func() error, op string, paths ...string) error {
	for _, path := range paths {
		op += " " + letterName.ReplaceAllString(filepath.ToSlash(path), "*.letter")
	}
	if len(d.steps) == 0 || op != d.steps[len(d.steps)-1] { // a file is written in parts
		d.steps = append(d.steps, op)
	}
	if d.failing != "" && strings.HasPrefix(op, d.failing) {
		return errDisk
	}
	return do()
}

func (d *tracedDisk) mkdir(path string) error {
	return d.step(func() error { return d.osDisk.mkdir(path) }, "mkdir", path)
}

func (d *tracedDisk) create(path string) (diskFile, error) {
	f := &tracedFile{disk: d}
	return f, d.step(func() (err error) { f.diskFile, err = d.osDisk.create(path); return err }, "create", path)
}

func (d *tracedDisk) rename(from, to string) error {
	return d.step(func() error { return d.osDisk.rename(from, to) }, "rename", from, to)
}

func (d *tracedDisk) remove(path string) error {
	return d.step(func() error { return d.osDisk.remove(path) }, "remove", path)
}

func (d *tracedDisk) syncDir(dir string) error {
	return d.step(func() error { return d.osDisk.syncDir(dir) }, "syncDir", dir)
}

type tracedFile struct {
	diskFile
	disk *tracedDisk
}

func (f *tracedFile) Write(p []byte) (n int, err error) {
	err = f.disk.step(func() error { n, err = f.diskFile.Write(p); return err }, "write")
	return n, err
}

func (f *tracedFile) Sync() error { return f.disk.step(f.diskFile.Sync, "sync") }

// A new folder is durable before the next one is made in it. One that is there may
// be of a process that crashed before it synced the parent. A letter has its name
// when it is whole and durable, and Put returns when the name is.
func TestStepsOfPut(t *testing.T) {
	for _, tt := range []struct {
		there, dir string
		folders    []string
	}{
		{".", "queue", []string{"mkdir queue", "syncDir ."}},
		{"a/queue", "./a/queue//", []string{"syncDir a"}},
		{"a/b", "a/b/queue/", []string{"syncDir a", "mkdir a/b/queue", "syncDir a/b"}},
		{".", "a/b/queue", []string{
			"mkdir a", "syncDir .", "mkdir a/b", "syncDir a", "mkdir a/b/queue", "syncDir a/b",
		}},
	} {
		t.Run(tt.dir, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll(tt.there, 0o700); err != nil {
				t.Fatal(err)
			}
			dir := filepath.ToSlash(filepath.Clean(tt.dir))
			file := []string{
				"create " + dir + "/*.letter.tmp", "write", "sync",
				"rename " + dir + "/*.letter.tmp " + dir + "/*.letter", "syncDir " + dir,
			}
			q, disk := &Dir{Path: tt.dir}, &tracedDisk{}
			for range 2 { // the second letter finds the folder
				put(t, q, disk, post(t, "http://a.example", strings.Repeat("x", 100<<10)))
			}
			if diff := cmp.Diff(slices.Concat(tt.folders, file, file), disk.steps); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the folder: %v, %v", info, err)
			}
			if err := os.RemoveAll(dir); err != nil { // it may come back
				t.Fatal(err)
			}
			put(t, q, disk, post(t, "http://a.example", "x"))
		})
	}
}

// A letter is durably deleted after its delivery and before the next one is sent.
func TestStepsOfRedrive(t *testing.T) {
	t.Chdir(t.TempDir())
	fill(t, "queue", "200", "503", "200")
	disk := &tracedDisk{}
	base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		disk.steps = append(disk.steps, "send "+s.Body)
		if s.Body == "503" {
			return respond(503, req), err
		}
		return respond(200, req), err
	})
	done, err := (&Dir{Path: "queue"}).redrive(t.Context(), disk, base, RedriveOptions{})
	if done != (Counts{Delivered: 2, Kept: 1}) || err == nil {
		t.Errorf("got %+v, %v", done, err)
	}
	deletion := []string{"remove queue/*.letter", "syncDir queue"}
	want := slices.Concat([]string{"send 200"}, deletion, []string{"send 503", "send 200"}, deletion)
	if diff := cmp.Diff(want, disk.steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A step that fails is an error. It leaves no half of a letter, and the letter
// before as it is.
func TestDiskFailuresOfTheQueue(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "rename", "syncDir"} {
		t.Run(op, func(t *testing.T) {
			dir := t.TempDir()
			disk, q := &tracedDisk{}, &Dir{Path: dir}
			put(t, q, disk, post(t, "http://a.example", "first"))
			disk.failing = op
			err := q.put(t.Context(), disk, DeadLetter{Request: post(t, "http://a.example", "second")})
			if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), dir) {
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
			disk := &tracedDisk{failing: tt.op}
			done, err := (&Dir{Path: dir}).redrive(t.Context(), disk, httpfake.Base(ok), RedriveOptions{})
			if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), oldest) ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if left := len(entries(t, dir)); done != (Counts{Delivered: 1}) || left != tt.left {
				t.Errorf("%+v, %d are left", done, left)
			}
		})
	}
}
