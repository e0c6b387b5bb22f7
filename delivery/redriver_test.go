package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRedriveRefusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Redriver
		want string
	}{
		{"no Base", Redriver{}, "delivery: Redriver.Base is nil"},
		{"a negative Limit", Redriver{Base: responding(200), Limit: -1}, "delivery: Redriver.Limit is -1"},
		{"a negative MaxFailures", Redriver{Base: responding(200), MaxFailures: -1},
			"delivery: Redriver.MaxFailures is -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.r.Redrive(t.Context(), t.TempDir()); err == nil ||
				!strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("no RoundTripper", func(t *testing.T) {
		if _, err := Redrive(t.Context(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "rt is nil") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a missing folder", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		done, err := Redrive(t.Context(), missing, roundTripper(nil))
		if done != (Redriven{}) || err != nil {
			t.Errorf("got %+v, %v", done, err)
		}
		if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
	})
	t.Run("a folder that is a file", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "file", "hello")
		if _, err := Redrive(t.Context(), filepath.Join(dir, "file"), roundTripper(nil)); err == nil {
			t.Error("no error")
		}
	})
	t.Run("a folder without a name", func(t *testing.T) {
		dir := t.TempDir()
		fill(t, dir, "1")
		t.Chdir(dir) // the current folder is not meant
		done, err := Redrive(t.Context(), "", responding(200))
		if err == nil || err.Error() != `delivery: Redrive: the folder is ""; it must be a path` {
			t.Errorf("got %v", err)
		}
		if done != (Redriven{}) || len(entries(t, dir)) != 1 {
			t.Errorf("got %+v, and %d letters are left", done, len(entries(t, dir)))
		}
	})
	t.Run("an empty folder", func(t *testing.T) {
		if done, err := Redrive(t.Context(), t.TempDir(), roundTripper(nil)); done != (Redriven{}) || err != nil {
			t.Errorf("got %+v, %v", done, err)
		}
	})
}

// seen redrives dir with r and returns what r observed. The response to a
// letter has the status that is its body.
func seen(t *testing.T, dir string, r Redriver) (results []string, done Redriven, err error) {
	t.Helper()
	r.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		var status int
		fmt.Sscan(s.Body, &status)
		return respond(status, req), nil
	})
	r.Observe = func(result LetterResult) {
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
	done, err = r.Redrive(t.Context(), dir)
	return results, done, err
}

// A letter is reported when it is deleted or left alone for good.
func TestRedriverReports(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "200", "503", "204")
	write(t, dir, "zz.letter", "hello")
	dry, done, err := seen(t, dir, Redriver{DryRun: true})
	const broken = "broken: not a whole dead letter: unexpected EOF"
	if diff := cmp.Diff([]string{"unsent", "unsent", "unsent", broken}, dry); diff != "" {
		t.Errorf("a dry run (-want +got):\n%s", diff)
	}
	if done != (Redriven{Unsent: 3, Broken: 1}) || err == nil || len(entries(t, dir)) != 4 {
		t.Errorf("a dry run: got %+v, %v; %d files are left", done, err, len(entries(t, dir)))
	}
	got, done, err := seen(t, dir, Redriver{})
	want := []string{"delivered", "kept: got 503 Service Unavailable", "delivered", broken}
	if diff := cmp.Diff(want, got); diff != "" {
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
		{"failures in a row", "503 200 503 503 200 200", Redriver{MaxFailures: 2},
			Redriven{Delivered: 1, Kept: 3}, ErrMaxFailures},
		{"failures, but not in a row", "503 200 503 200 503", Redriver{MaxFailures: 2},
			Redriven{Delivered: 2, Kept: 3}, nil},
		{"the first failure", "200 503 200", Redriver{MaxFailures: 1}, Redriven{Delivered: 1, Kept: 1}, ErrMaxFailures},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, strings.Fields(test.letters)...)
			_, done, err := seen(t, dir, test.r)
			if done != test.want || errors.Is(err, ErrMaxFailures) != (test.err != nil) {
				t.Errorf("got %+v, %v; want %+v", done, err, test.want)
			}
			if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "\ndelivery: ", ""), ": delivery: ") {
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
	var dry Redriven
	outer, err := Redrive(t.Context(), dir, roundTripper(func(req *http.Request) (*http.Response, error) {
		var err error
		if dry, err = (&Redriver{DryRun: true}).Redrive(t.Context(), dir); err != nil {
			t.Error(err)
		}
		if left := entries(t, dir); len(left) != 2 {
			t.Errorf("the dry run leaves %q", left)
		}
		return respond(503, req), nil
	}))
	if outer != (Redriven{Kept: 1}) || err == nil || dry != (Redriven{Unsent: 1}) {
		t.Errorf("got %+v, %v, and %+v in between", outer, err, dry)
	}
}
