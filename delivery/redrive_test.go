package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func fill(t *testing.T, dir string, bodies ...string) {
	t.Helper()
	queue := DirQueue(dir)
	for _, body := range bodies {
		if err := queue(t.Context(), DeadLetter{Request: post(t, "http://a.example/?token=secret", body)}); err != nil {
			t.Fatal(err)
		}
	}
}

// A countedBody says whether it was read to its end, and how often it was
// closed.
type countedBody struct {
	io.Reader
	closed atomic.Int32
}

func (b *countedBody) Close() error {
	b.closed.Add(1)
	return nil
}

func TestRedrive(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "200", "503", "204", "refused", "302", "400", "panic-free", "299")
	names := entries(t, dir)
	write(t, dir, "0-foreign.txt", "hello")
	write(t, dir, "1-broken.letter", "hello")
	os.Mkdir(filepath.Join(dir, "2-folder.letter"), 0o700)
	os.Symlink(filepath.Join(dir, names[0]), filepath.Join(dir, "1-link.letter"))

	refused := errors.New("connection refused")
	var got []string
	var bodies []*countedBody
	done, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		got = append(got, s.Body)
		var status int
		if _, err := fmt.Sscan(s.Body, &status); err != nil {
			if s.Body == "refused" {
				return nil, refused
			}
			return nil, nil
		}
		body := &countedBody{Reader: strings.NewReader("the answer")}
		bodies = append(bodies, body)
		resp := answerWith(status, req)
		resp.Body = body
		return resp, nil
	}))
	if diff := cmp.Diff([]string{"200", "503", "204", "refused", "302", "400", "panic-free", "299"}, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if want := (Redriven{Delivered: 3, Kept: 5, Broken: 4}); done != want {
		t.Errorf("got %+v, want %+v", done, want)
	}
	for n, body := range bodies {
		if rest, _ := io.ReadAll(body); len(rest) > 0 || body.closed.Load() != 1 {
			t.Errorf("answer %d: %d bytes not read, closed %d times", n, len(rest), body.closed.Load())
		}
	}
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want %v in it", err, refused)
	}
	lines := strings.Split(fmt.Sprint(err), "\n")
	want := []string{"0-foreign.txt: not a dead letter", "1-broken.letter: not a whole dead letter", "1-link.letter: not a dead letter",
		"2-folder.letter: not a dead letter", names[1] + ": answered 503 Service Unavailable", names[3] + ": connection refused",
		names[4] + ": answered 302 Found", names[5] + ": answered 400 Bad Request", names[6] + ": rt returned neither"}
	if len(lines) != len(want) {
		t.Fatalf("got %q", lines)
	}
	for i := range lines {
		if !strings.HasPrefix(lines[i], "delivery: Redrive: "+filepath.Join(dir, want[i])) || strings.Contains(lines[i], "secret") {
			t.Errorf("got  %s\nwant %s", lines[i], want[i])
		}
	}
	left := []string{"0-foreign.txt", "1-broken.letter", "1-link.letter", "2-folder.letter", names[1], names[3], names[4], names[5], names[6]}
	if diff := cmp.Diff(left, entries(t, dir)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestRedriveEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1", "2", "3")
	why := errors.New("the user went home")
	for _, test := range []struct {
		answer func(*http.Request) (*http.Response, error)
		want   Redriven
	}{
		{func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() }, Redriven{Kept: 1}},
		{func(req *http.Request) (*http.Response, error) { return answerWith(200, req), nil }, Redriven{Delivered: 1}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		done, err := Redrive(ctx, dir, roundTripper(func(req *http.Request) (*http.Response, error) {
			cancel(why)
			return test.answer(req)
		}))
		if done != test.want || !errors.Is(err, why) {
			t.Errorf("got %+v, %v", done, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if done, err := Redrive(ctx, dir, roundTripper(nil)); done != (Redriven{}) || !errors.Is(err, why) {
		t.Errorf("ended before: got %+v, %v", done, err)
	}
	if n := len(entries(t, dir)); n != 2 {
		t.Errorf("%d letters are left, want 2", n)
	}
}

func TestRedriveRefusals(t *testing.T) {
	if _, err := Redrive(t.Context(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "rt is nil") {
		t.Errorf("no RoundTripper: %v", err)
	}
	if _, err := Redrive(t.Context(), filepath.Join(t.TempDir(), "missing"), roundTripper(nil)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	dir := t.TempDir()
	fill(t, dir, "1")
	t.Chdir(dir)
	done, err := Redrive(t.Context(), "", answering(200))
	if done != (Redriven{}) || err == nil || err.Error() != `delivery: Redrive: the folder is ""; it must be a path` || len(entries(t, dir)) != 1 {
		t.Errorf("\"\" in a folder of letters: %+v, %v", done, err)
	}
	if done, err := Redrive(t.Context(), t.TempDir(), roundTripper(nil)); done != (Redriven{}) || err != nil {
		t.Errorf("an empty folder: %+v, %v", done, err)
	}
}

// Many Redrives at once send each letter once.
func TestRedrivesAtOnce(t *testing.T) {
	if !canLock {
		t.Skip("this system has no file locks")
	}
	dir := t.TempDir()
	const letters, runs = 40, 8
	var bodies []string
	for n := range letters {
		bodies = append(bodies, fmt.Sprint(n))
	}
	fill(t, dir, bodies...)
	var mu sync.Mutex
	got := map[string]int{}
	var delivered atomic.Int64
	var wg sync.WaitGroup
	for range runs {
		wg.Go(func() {
			done, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
				s, err := receive(req)
				mu.Lock()
				got[s.Body]++
				mu.Unlock()
				return answerWith(200, req), err
			}))
			if err != nil || done.Kept+done.Broken > 0 {
				t.Errorf("got %+v, %v", done, err)
			}
			delivered.Add(int64(done.Delivered))
		})
	}
	wg.Wait()
	for _, body := range bodies {
		if got[body] != 1 {
			t.Errorf("letter %s was sent %d times", body, got[body])
		}
	}
	if delivered.Load() != letters || len(entries(t, dir)) > 0 {
		t.Errorf("%d delivered, %d left", delivered.Load(), len(entries(t, dir)))
	}
}

func TestBusyLettersAreLeftToTheirRedrive(t *testing.T) {
	if !canLock {
		t.Skip("this system has no file locks")
	}
	dir := t.TempDir()
	fill(t, dir, "1", "2")
	ok := func(req *http.Request) (*http.Response, error) { return answerWith(200, req), nil }
	outer, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		if s, _ := receive(req); s.Body == "1" {
			inner, err := Redrive(t.Context(), dir, roundTripper(ok))
			if err != nil || inner != (Redriven{Delivered: 1, Busy: 1}) {
				t.Errorf("the second: got %+v, %v", inner, err)
			}
		}
		return ok(req)
	}))
	if err != nil || outer != (Redriven{Delivered: 1}) {
		t.Errorf("the first: got %+v, %v", outer, err)
	}
}

// A lock is of no use on a file that was deleted, or replaced, between its
// opening and its locking.
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
	if !stillAt(path, f) {
		t.Error("an untouched file is not there")
	}
	if err := os.Rename(filepath.Join(dir, "b"), path); err != nil {
		t.Fatal(err)
	}
	if stillAt(path, f) {
		t.Error("a replaced file is there")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if stillAt(path, f) {
		t.Error("a deleted file is there")
	}
}

// A panic in rt lets the letter go.
func TestRedrivePanics(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		Redrive(t.Context(), dir, roundTripper(func(*http.Request) (*http.Response, error) { panic("boom") }))
	}()
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
	for _, name := range []string{"young.letter.tmp", "old.letter.tmp", "held.letter.tmp", "foreign.tmp"} {
		write(t, dir, name, "half")
		if name != "young.letter.tmp" {
			os.Chtimes(filepath.Join(dir, name), old, old)
		}
	}
	held, err := os.OpenFile(filepath.Join(dir, "held.letter.tmp"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if ok, err := lock(held); !ok || err != nil {
		t.Fatal(ok, err)
	}
	done, err := Redrive(t.Context(), dir, roundTripper(nil))
	if done != (Redriven{Broken: 1}) || err == nil || !strings.Contains(err.Error(), "foreign.tmp") {
		t.Errorf("got %+v, %v", done, err)
	}
	if diff := cmp.Diff([]string{"foreign.tmp", "held.letter.tmp", "young.letter.tmp"}, entries(t, dir)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// An answer that never ends does not hold up the next letter.
func TestRedriveDoesNotWaitForAnEndlessAnswer(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1", "2")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		done, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answerWith(200, req)
			resp.Body = io.NopCloser(untilDone{req.Context()})
			return resp, nil
		}))
		if took := time.Since(start); err != nil || done.Delivered != 2 || took != 2*drainWait {
			t.Errorf("got %+v, %v in %v", done, err, took)
		}
	})
}

// An untilDone is a body that hangs until its context ends.
type untilDone struct{ ctx context.Context }

func (b untilDone) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// seen makes a Redriver that answers with the status that a letter's body says,
// and tells what it observed.
func seen(t *testing.T, dir string, r Redriver) (results []string, done Redriven, err error) {
	t.Helper()
	r.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		var status int
		fmt.Sscan(s.Body, &status)
		return answerWith(status, req), nil
	})
	r.Observe = func(result LetterResult) {
		if _, err := os.Stat(filepath.Join(dir, result.Letter.Name)); (err == nil) == (result.Result == Delivered) {
			t.Errorf("%s is reported as %s, and its file: %v", result.Letter.Name, result.Result, err)
		}
		if whole := result.Letter.Method == "POST" && result.Letter.URL == "http://a.example/" && result.Letter.Size > 0; whole == (result.Result == Broken) {
			t.Errorf("got %+v", result)
		}
		text := string(result.Result)
		if result.Err != nil {
			text += ": " + result.Err.Error()
		}
		results = append(results, text)
	}
	done, err = r.Redrive(t.Context(), dir)
	return results, done, err
}

// A letter is reported when it is gone, or when it stays.
func TestRedriverReports(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "200", "503", "204")
	write(t, dir, "zz.letter", "hello")
	dry, done, err := seen(t, dir, Redriver{DryRun: true})
	if diff := cmp.Diff([]string{"unsent", "unsent", "unsent", "broken: not a whole dead letter: unexpected EOF"}, dry); diff != "" {
		t.Errorf("a dry run (-want +got):\n%s", diff)
	}
	if done != (Redriven{Unsent: 3, Broken: 1}) || err == nil || len(entries(t, dir)) != 4 {
		t.Errorf("a dry run: got %+v, %v; %d files are left", done, err, len(entries(t, dir)))
	}
	got, done, err := seen(t, dir, Redriver{})
	if diff := cmp.Diff([]string{"delivered", "kept: answered 503 Service Unavailable", "delivered", dry[3]}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if done != (Redriven{Delivered: 2, Kept: 1, Broken: 1}) || err == nil {
		t.Errorf("got %+v, %v", done, err)
	}
}

func TestRedriverLimits(t *testing.T) {
	for _, test := range []struct {
		name    string
		letters string
		r       Redriver
		want    Redriven
		err     error
	}{
		{"limit", "200 503 200 200", Redriver{Limit: 2}, Redriven{Delivered: 1, Kept: 1}, nil},
		{"limit of more than there are", "200 200", Redriver{Limit: 3}, Redriven{Delivered: 2}, nil},
		{"limit of a dry run", "200 200 200", Redriver{Limit: 2, DryRun: true}, Redriven{Unsent: 2}, nil},
		{"failures in a row", "503 200 503 503 200 200", Redriver{MaxFailures: 2}, Redriven{Delivered: 1, Kept: 3}, ErrMaxFailures},
		{"failures, but not in a row", "503 200 503 200 503", Redriver{MaxFailures: 2}, Redriven{Delivered: 2, Kept: 3}, nil},
		{"the first failure", "200 503 200", Redriver{MaxFailures: 1}, Redriven{Delivered: 1, Kept: 1}, ErrMaxFailures},
	} {
		dir := t.TempDir()
		fill(t, dir, strings.Fields(test.letters)...)
		_, done, err := seen(t, dir, test.r)
		if done != test.want || errors.Is(err, ErrMaxFailures) != (test.err != nil) {
			t.Errorf("%s: got %+v, %v; want %+v", test.name, done, err, test.want)
		}
		if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "\ndelivery: ", ""), ": delivery: ") {
			t.Errorf("%s: got %v, which names the package twice", test.name, err)
		}
	}
	for _, r := range []Redriver{{}, {Base: roundTripper(nil), Limit: -1}, {Base: roundTripper(nil), MaxFailures: -1}} {
		if _, err := r.Redrive(t.Context(), t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "delivery: Redriver.") {
			t.Errorf("%+v: got %v", r, err)
		}
	}
}

// A dry run leaves everything as it is, and to another Redrive.
func TestDryRunChangesNothing(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1")
	write(t, dir, "old.letter.tmp", "half")
	old := time.Now().Add(-2 * tempAge)
	os.Chtimes(filepath.Join(dir, "old.letter.tmp"), old, old)
	var dry Redriven
	outer, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		var err error
		if dry, err = (&Redriver{DryRun: true}).Redrive(t.Context(), dir); err != nil {
			t.Error(err)
		}
		if left := entries(t, dir); len(left) != 2 {
			t.Errorf("after the dry run %q is left", left)
		}
		return answerWith(503, req), nil
	}))
	if outer != (Redriven{Kept: 1}) || err == nil || dry != (Redriven{Unsent: 1}) {
		t.Errorf("got %+v, %v, and %+v in between", outer, err, dry)
	}
}
