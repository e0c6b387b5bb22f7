package letters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/internal/httpfake"
)

// Names sort in the order of the letters, even if the clock does not advance, as
// here. Several Dirs may share a folder: their names never collide.
func TestNamesSortByTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var want, got []string
	synctest.Test(t, func(t *testing.T) {
		queue, other := &Dir{Path: dir}, &Dir{Path: dir}
		for n := range 20 {
			want = append(want, fmt.Sprint(n))
			put(t, queue, osDisk{}, post(t, "http://a.example", fmt.Sprint(n)))
			put(t, other, osDisk{}, post(t, "http://a.example", "other"))
			if n%5 == 0 {
				time.Sleep(time.Hour)
			}
		}
	})
	send(t, dir, func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		got = append(got, s.Body)
		return respond(500, req), err
	})
	sent := len(got)
	got = slices.DeleteFunc(got, func(body string) bool { return body == "other" })
	if diff := cmp.Diff(want, got); diff != "" || sent != 2*len(want) {
		t.Errorf("%d sent (-want +got):\n%s", sent, diff)
	}
}

// A folder without a name is not the current one. One that is missing is empty.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "hello")
	t.Chdir(dir)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errWentHome)
	putIn := func(ctx context.Context) func(*Dir) error {
		return func(d *Dir) error { return d.Put(ctx, DeadLetter{Request: post(t, "http://a.example", "x")}) }
	}
	redrive := func(rt http.RoundTripper, options RedriveOptions) func(*Dir) error {
		return func(d *Dir) error {
			done, err := d.Redrive(t.Context(), rt, options)
			if done != (Counts{}) {
				t.Errorf("Redrive: got %+v", done)
			}
			return err
		}
	}
	list := func(d *Dir) error {
		for letter, err := range d.List() {
			if letter != (Letter{}) {
				t.Errorf("List: got %+v", letter)
			}
			return err
		}
		return nil
	}
	none := httpfake.Base(nil)
	const noName = `letters: Dir.Path is ""; it must be the path of a folder`
	for _, tt := range []struct {
		name, dir string
		do        func(*Dir) error
		want      string // "": no error
	}{
		{"Put with an ended context", dir, putIn(ended), errWentHome.Error()},
		{"Put without a name", "", putIn(t.Context()), noName},
		{"Put into a file", "file", putIn(t.Context()), "letters: Put: "},
		{"Put below a file", "file/queue", putIn(t.Context()), "letters: Put: "},
		{"List without a name", "", list, noName},
		{"List of a file", "file", list, "letters: List: "},
		{"List of a missing folder", "missing", list, ""},
		{"Redrive without a name", "", redrive(none, RedriveOptions{}), noName},
		{"Redrive of a file", "file", redrive(none, RedriveOptions{}), "letters: Redrive: "},
		{"Redrive of a missing folder", "missing", redrive(none, RedriveOptions{}), ""},
		{"no RoundTripper", dir, redrive(nil, RedriveOptions{}), "letters: Redrive: rt is nil"},
		{"a negative Limit", dir, redrive(none, RedriveOptions{Limit: -1}), "letters: RedriveOptions.Limit is -1"},
		{"a negative MaxFailures", dir, redrive(none, RedriveOptions{MaxFailures: -1}),
			"letters: RedriveOptions.MaxFailures is -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do(&Dir{Path: tt.dir})
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if left := entries(t, dir); len(left) != 1 {
				t.Errorf("%q is there", left)
			}
		})
	}
}

// A body is copied, not read into memory.
func TestLettersAreStreamed(t *testing.T) {
	const size = 64 << 20
	dir := t.TempDir()
	req := post(t, "https://a.example/", "")
	req.Body, req.GetBody, req.ContentLength = io.NopCloser(io.LimitReader(httpfake.Zeros, size)), nil, -1
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	put(t, &Dir{Path: dir}, osDisk{}, req)
	var got int64
	_, err := send(t, dir, func(req *http.Request) (*http.Response, error) {
		got, _ = io.Copy(io.Discard, req.Body)
		return respond(204, req), nil
	})
	runtime.ReadMemStats(&after)
	if err != nil || got != size {
		t.Errorf("%d bytes of %d, %v", got, int64(size), err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated for a body of %d", grown, int64(size))
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	queue := &Dir{Path: dir}
	before := time.Now()
	first := post(t, "https://user:secret@a.example:8443/path?token=secret", "hello")
	second := post(t, "http://b.example", "")
	hostile := errors.New("malformed HTTP status code \"\x1b]0;owned\a\u009b31m\"" +
		" of https://user:secret@b.example/hook?token=secret")
	long := errors.New(strings.Repeat("ü", 1<<16) + "\n")
	for _, dead := range []DeadLetter{
		{Request: first, Attempts: 4, Response: respond(503, first), Reason: "max_attempts"},
		{Request: second, Attempts: 1, Err: hostile, Reason: "canceled"},
		{Request: second, Attempts: 1, Err: long, Reason: "canceled"},
	} {
		if err := queue.Put(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "zz.txt", "foreign")
	write(t, dir, "zzz.letter", "{}\n")
	write(t, dir, "zzzz.letter.tmp", "half")

	var letters []Letter
	var errs []string
	for letter, err := range (&Dir{Path: dir}).List() {
		if err != nil {
			errs = append(errs, letter.Name+" "+err.Error())
			continue
		}
		letters = append(letters, letter)
	}
	if len(errs) != 2 || !strings.HasPrefix(errs[0], "zz.txt") || !strings.HasPrefix(errs[1], "zzz.letter") {
		t.Errorf("got %q", errs)
	}
	want := []Letter{
		{Method: "POST", URL: "https://a.example:8443/path", Attempts: 4, Reason: "max_attempts", Status: 503},
		{Method: "POST", URL: "http://b.example", Attempts: 1, Reason: "canceled",
			Err: "malformed HTTP status code \"\ufffd]0;owned\ufffd\ufffd31m\" of https://b.example/hook?…"},
		{Method: "POST", URL: "http://b.example", Attempts: 1, Reason: "canceled",
			Err: strings.Repeat("ü", maxErrText/2)},
	}
	for i, letter := range letters {
		info, err := os.Stat(filepath.Join(dir, letter.Name))
		if err != nil || info.Size() != letter.Size || info.Mode() != 0o600 && runtime.GOOS != "windows" ||
			letter.Time.Before(before) || letter.Time.After(time.Now()) {
			t.Errorf("%v, %v of %+v", info, err, letter)
		}
		letter.Name, letter.Size, letter.Time = "", 0, time.Time{}
		if diff := cmp.Diff(want[i], letter); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if len(letters) != len(want) {
		t.Errorf("%d letters", len(letters))
	}
	for range (&Dir{Path: dir}).List() {
		break // which must end it
	}
}
