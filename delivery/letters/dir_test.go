package letters

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// Names sort in the order of the letters, even if the clock does not advance,
// as here.
func TestNamesSortByTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var want, got []string
	synctest.Test(t, func(t *testing.T) {
		queue := &Dir{Path: dir}
		for n := range 20 {
			want = append(want, fmt.Sprint(n))
			if err := queue.Put(t.Context(), DeadLetter{Request: post(t, "http://a.example", fmt.Sprint(n))}); err != nil {
				t.Fatal(err)
			}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// Many Dirs, as many processes have, may share a folder.
func TestNamesNeverCollide(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 10 {
		queue := &Dir{Path: dir}
		wg.Go(func() {
			for range 10 {
				if err := queue.Put(t.Context(), DeadLetter{Request: post(t, "http://a.example", "x")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(entries(t, dir)); n != 100 {
		t.Errorf("%d letters of 100", n)
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
