package letters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

// seen redrives dir and returns what Observe was called with, when a letter was
// deleted or left alone for good. The response to a letter has the status that is
// its body.
func seen(t *testing.T, dir string, options RedriveOptions) (results []string, done Counts, err error) {
	t.Helper()
	var responses []*httpfake.Body
	rt := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		switch s.Body {
		case "refused":
			return nil, errRefused
		case "nothing":
			return nil, nil
		}
		status, err := strconv.Atoi(s.Body)
		resp := respond(status, req)
		body := httpfake.NewBody(strings.NewReader("the response"))
		responses, resp.Body = append(responses, body), body
		return resp, err
	})
	var failures []string
	options.Observe = func(result Record) {
		letter, path := result.Letter, filepath.Join(dir, result.Letter.Name)
		if _, err := os.Lstat(path); (err == nil) == (result.Result == Delivered) {
			t.Errorf("%s is reported as %s, and its file: %v", letter.Name, result.Result, err)
		}
		whole := letter.Method == "POST" && letter.URL == "http://a.example/" && letter.Size > 0
		if whole == (result.Result == Broken) {
			t.Errorf("got %+v", result)
		}
		text := string(result.Result)
		if result.Err != nil {
			text += ": " + result.Err.Error()
			failures = append(failures, fmt.Sprintf("letters: Redrive: %s: %v", path, result.Err))
		}
		results = append(results, text)
	}
	done, err = (&Dir{Path: dir}).Redrive(t.Context(), rt, options)
	for n, body := range responses {
		if body.Reads() < 2 || body.Closes() != 1 { // to its end
			t.Errorf("response %d: read %d times, closed %d times", n, body.Reads(), body.Closes())
		}
	}
	if errors.Is(err, ErrMaxFailures) {
		failures = append(failures, fmt.Sprintf("%v: %d", ErrMaxFailures, options.MaxFailures))
	}
	if want := strings.Join(failures, "\n"); (err != nil) != (want != "") || err != nil && err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	return results, done, err
}

var errRefused = errors.New("connection refused")

func TestRedrive(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "200", "503", "refused", "302", "nothing", "299")
	names := entries(t, dir)
	write(t, dir, "0-foreign.txt", "hello")
	write(t, dir, "1-broken.letter", "hello")
	os.Mkdir(filepath.Join(dir, "2-folder.letter"), 0o700)
	os.Symlink(filepath.Join(dir, names[0]), filepath.Join(dir, "1-link.letter"))

	broken := []string{
		"broken: not a dead letter", "broken: not a whole dead letter: unexpected EOF", "broken: not a dead letter",
		"broken: not a dead letter",
	}
	dry, done, _ := seen(t, dir, RedriveOptions{DryRun: true})
	unsent := slices.Repeat([]string{"unsent"}, len(names))
	if diff := cmp.Diff(append(broken, unsent...), dry); diff != "" || done != (Counts{Unsent: 6, Broken: 4}) {
		t.Errorf("a dry run: %+v (-want +got):\n%s", done, diff)
	}
	got, done, err := seen(t, dir, RedriveOptions{})
	sent := []string{
		"delivered", "kept: got 503 Service Unavailable", "kept: connection refused", "kept: got 302 Found",
		"kept: rt returned neither a response nor an error", "delivered",
	}
	if diff := cmp.Diff(append(broken, sent...), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if done != (Counts{Delivered: 2, Kept: 4, Broken: 4}) || !errors.Is(err, errRefused) {
		t.Errorf("got %+v, %v", done, err)
	}
}

func TestRedriveLimits(t *testing.T) {
	for _, tt := range []struct {
		letters string
		options RedriveOptions
		want    Counts
		stopped bool
	}{
		{"200 503 200 200", RedriveOptions{Limit: 2}, Counts{Delivered: 1, Kept: 1}, false},
		{"200 200 200", RedriveOptions{Limit: 2, DryRun: true}, Counts{Unsent: 2}, false},
		{"503 200 503 503 200 200", RedriveOptions{MaxFailures: 2}, Counts{Delivered: 1, Kept: 3}, true},
		{"503 200 503 200 503", RedriveOptions{MaxFailures: 2}, Counts{Delivered: 2, Kept: 3}, false},
	} {
		t.Run(tt.letters, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, strings.Fields(tt.letters)...)
			_, done, err := seen(t, dir, tt.options)
			if done != tt.want || errors.Is(err, ErrMaxFailures) != tt.stopped {
				t.Errorf("got %+v, %v; want %+v", done, err, tt.want)
			}
		})
	}
}

func TestRedriveEndsWithItsContext(t *testing.T) {
	for _, tt := range []struct {
		name string
		base httpfake.Base
		want Counts
		left int
	}{
		{"before the first letter", nil, Counts{}, 3},
		{"in an attempt that fails", func(req *http.Request) (*http.Response, error) {
			return nil, req.Context().Err()
		}, Counts{Kept: 1}, 3},
		{"in a delivery", ok, Counts{Delivered: 1}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, "1", "2", "3")
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.base == nil {
				cancel(errWentHome)
			}
			done, err := (&Dir{Path: dir}).Redrive(ctx, httpfake.Base(func(req *http.Request) (*http.Response, error) {
				cancel(errWentHome)
				return tt.base(req)
			}), RedriveOptions{})
			if done != tt.want || !errors.Is(err, errWentHome) {
				t.Errorf("got %+v, %v", done, err)
			}
			if n := len(entries(t, dir)); n != tt.left {
				t.Errorf("%d letters are left, want %d", n, tt.left)
			}
		})
	}
}

// Many Redrives at once send each letter once.
func TestRedrivesAtOnce(t *testing.T) {
	if !canLock {
		t.Skip("this system has no file locks")
	}
	dir := t.TempDir()
	const letters = 40
	fill(t, dir, strings.Fields(strings.Repeat("x ", letters))...)
	var sent atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { sent.Add(int64(collect(t, dir)["x"])) })
	}
	wg.Wait()
	if left := entries(t, dir); sent.Load() != letters || len(left) > 0 {
		t.Errorf("%d letters were sent %d times, and %d are left", letters, sent.Load(), len(left))
	}
}

// A dry run locks none, and is not stopped by locks.
func TestBusyLettersAreLeftToTheirRedrive(t *testing.T) {
	if !canLock {
		t.Skip("this system has no file locks")
	}
	dir := t.TempDir()
	fill(t, dir, "1", "2")
	outer, err := send(t, dir, func(req *http.Request) (*http.Response, error) {
		if s, _ := receive(req); s.Body == "1" {
			dry, err := (&Dir{Path: dir}).Redrive(t.Context(), nil, RedriveOptions{DryRun: true})
			if err != nil || dry != (Counts{Unsent: 2}) {
				t.Errorf("the dry run: got %+v, %v", dry, err)
			}
			inner, err := send(t, dir, ok)
			if err != nil || inner != (Counts{Delivered: 1, Busy: 1}) {
				t.Errorf("the second: got %+v, %v", inner, err)
			}
		}
		return ok(req)
	})
	if err != nil || outer != (Counts{Delivered: 1}) {
		t.Errorf("the first: got %+v, %v", outer, err)
	}
}

// A lock is of no use on a file that was deleted or replaced before it was
// locked.
func TestStillAt(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "x")
	write(t, dir, "b", "x")
	path := filepath.Join(dir, "a")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	untouched := stillAt(path, f)
	os.Rename(filepath.Join(dir, "b"), path)
	replaced := stillAt(path, f)
	os.Remove(path)
	if deleted := stillAt(path, f); !untouched || replaced || deleted {
		t.Errorf("untouched: %v, replaced: %v, deleted: %v", untouched, replaced, deleted)
	}
}

// A panic in rt unlocks the letter.
func TestRedrivePanics(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1")
	base := httpfake.Base(func(*http.Request) (*http.Response, error) { panic("boom") })
	if p := httpfake.Recovered(func() { (&Dir{Path: dir}).Redrive(t.Context(), base, RedriveOptions{}) }); p != "boom" {
		t.Errorf("recovered %v", p)
	}
	if got := collect(t, dir); got["1"] != 1 {
		t.Errorf("after the panic: %v", got)
	}
}

func TestHalfWrittenFilesAreSwept(t *testing.T) {
	if !canLock {
		t.Skip("this system has no file locks")
	}
	dir := t.TempDir()
	old := time.Now().Add(-2 * tempAge)
	for _, name := range []string{"young.letter.tmp", "old.letter.tmp", "locked.letter.tmp", "foreign.tmp"} {
		write(t, dir, name, "half")
		if name != "young.letter.tmp" {
			os.Chtimes(filepath.Join(dir, name), old, old)
		}
	}
	locked, err := os.OpenFile(filepath.Join(dir, "locked.letter.tmp"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	if ok, err := lock(locked); !ok || err != nil {
		t.Fatal(ok, err)
	}
	(&Dir{Path: dir}).Redrive(t.Context(), nil, RedriveOptions{DryRun: true})
	if left := entries(t, dir); len(left) != 4 {
		t.Errorf("a dry run leaves %q", left)
	}
	done, err := send(t, dir, nil)
	if done != (Counts{Broken: 1}) || err == nil || !strings.Contains(err.Error(), "foreign.tmp") {
		t.Errorf("got %+v, %v", done, err)
	}
	if diff := cmp.Diff([]string{"foreign.tmp", "locked.letter.tmp", "young.letter.tmp"}, entries(t, dir)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// A response that never ends does not delay the next letter.
func TestRedriveDoesNotWaitForAnEndlessResponse(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1", "2")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		done, err := send(t, dir, func(req *http.Request) (*http.Response, error) {
			resp := respond(200, req)
			resp.Body = io.NopCloser(httpfake.UntilDone(req.Context()))
			return resp, nil
		})
		if took := time.Since(start); err != nil || done.Delivered != 2 || took != 2*drainWait {
			t.Errorf("got %+v, %v in %v", done, err, took)
		}
	})
}
