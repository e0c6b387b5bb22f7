package letters

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
)

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

// seen redrives dir and returns what Observe was called with. The response to a
// letter has the status that is its body.
func seen(t *testing.T, dir string, options RedriveOptions) (results []string, done Counts, err error) {
	t.Helper()
	rt := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		status, err := strconv.Atoi(s.Body)
		return respond(status, req), err
	})
	options.Observe = func(result Record) {
		if _, err := os.Stat(filepath.Join(dir, result.Letter.Name)); (err == nil) == (result.Result == Delivered) {
			t.Errorf("%s is reported as %s, and its file: %v", result.Letter.Name, result.Result, err)
		}
		letter := result.Letter
		whole := letter.Method == "POST" && letter.URL == "http://a.example/" && letter.Size > 0
		if whole == (result.Result == Broken) {
			t.Errorf("got %+v", result)
		}
		text := string(result.Result)
		if result.Err != nil {
			text += ": " + result.Err.Error()
		}
		results = append(results, text)
	}
	done, err = (&Dir{Path: dir}).Redrive(t.Context(), rt, options)
	return results, done, err
}

// A letter is reported when it is deleted or left alone for good.
func TestRedriveReports(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "200", "503", "204")
	write(t, dir, "zz.letter", "hello")
	const broken = "broken: not a whole dead letter: unexpected EOF"
	for _, tt := range []struct {
		dry  bool
		seen []string
		want Counts
	}{
		{true, []string{"unsent", "unsent", "unsent", broken}, Counts{Unsent: 3, Broken: 1}},
		{false, []string{"delivered", "kept: got 503 Service Unavailable", "delivered", broken},
			Counts{Delivered: 2, Kept: 1, Broken: 1}},
	} {
		got, done, err := seen(t, dir, RedriveOptions{DryRun: tt.dry})
		if diff := cmp.Diff(tt.seen, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if done != tt.want || err == nil {
			t.Errorf("got %+v, %v", done, err)
		}
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
		{"200 200", RedriveOptions{Limit: 3}, Counts{Delivered: 2}, false},
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
			if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "\nletters: ", ""), ": letters: ") {
				t.Errorf("got %v, which names the package twice", err)
			}
		})
	}
}

// A dry run changes no file and locks none.
func TestDryRunChangesNothing(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "1")
	write(t, dir, "old.letter.tmp", "half")
	old := time.Now().Add(-2 * tempAge)
	os.Chtimes(filepath.Join(dir, "old.letter.tmp"), old, old)
	outer, err := send(t, dir, func(req *http.Request) (*http.Response, error) {
		dry, err := (&Dir{Path: dir}).Redrive(t.Context(), nil, RedriveOptions{DryRun: true})
		if left := entries(t, dir); err != nil || dry != (Counts{Unsent: 1}) || len(left) != 2 {
			t.Errorf("the dry run: got %+v, %v, and it leaves %q", dry, err, left)
		}
		return respond(503, req), nil
	})
	if outer != (Counts{Kept: 1}) || err == nil {
		t.Errorf("got %+v, %v", outer, err)
	}
}
