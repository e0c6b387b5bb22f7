package letters

import (
	"context"
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

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
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

func TestPutRefusals(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errWentHome)
	for _, tt := range []struct {
		name string
		ctx  context.Context
		dir  string
		want string
	}{
		{"an ended context", ended, dir, errWentHome.Error()},
		{"a folder without a name", t.Context(), "", `letters: Dir.Path is ""; it must be the path of a folder`},
		{"a file in place of a folder", t.Context(), filepath.Join(dir, "file"), "letters: Put: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := (&Dir{Path: tt.dir}).Put(tt.ctx, DeadLetter{Request: post(t, "http://a.example", "x")})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || len(entries(t, dir)) != 1 {
				t.Errorf("got %v; %q is in the folder", err, entries(t, dir))
			}
		})
	}
}

func TestRedriveRefusals(t *testing.T) {
	dir := t.TempDir()
	file, empty, missing := filepath.Join(dir, "file"), filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	write(t, dir, "file", "hello")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // which is not meant by a folder without a name
	none := httpfake.Base(nil)
	for _, tt := range []struct {
		name, dir string
		rt        http.RoundTripper
		options   RedriveOptions
		want      string // "": nothing to do
	}{
		{"no RoundTripper", empty, nil, RedriveOptions{}, "letters: Redrive: rt is nil"},
		{"a negative Limit", empty, none, RedriveOptions{Limit: -1}, "letters: RedriveOptions.Limit is -1"},
		{"a negative MaxFailures", empty, none, RedriveOptions{MaxFailures: -1}, "letters: RedriveOptions.MaxFailures is -1"},
		{"a folder without a name", "", none, RedriveOptions{}, `letters: Dir.Path is ""; it must be the path of a folder`},
		{"a folder that is a file", file, none, RedriveOptions{}, "letters: Redrive: "},
		{"a missing folder", missing, none, RedriveOptions{}, ""},
		{"an empty folder", empty, none, RedriveOptions{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, err := (&Dir{Path: tt.dir}).Redrive(t.Context(), tt.rt, tt.options)
			if done != (Counts{}) || (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %+v, %v", done, err)
			}
			if left := entries(t, dir); len(left) != 2 {
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
