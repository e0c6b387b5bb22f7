package letters

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// The parts of httpfake that most tests use.
var (
	post    = httpfake.Post
	receive = httpfake.Record
	respond = httpfake.Empty
	entries = httpfake.Entries
)

var errWentHome = errors.New("the user went home")

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fill puts a dead letter for each body into a folder.
func fill(t *testing.T, dir string, bodies ...string) {
	t.Helper()
	queue := &Dir{Path: dir}
	for _, body := range bodies {
		if err := queue.Put(t.Context(), DeadLetter{Request: post(t, "http://a.example/?token=secret", body)}); err != nil {
			t.Fatal(err)
		}
	}
}

// collect redrives a folder, and counts how often each body arrives.
func collect(t *testing.T, dir string) map[string]int {
	t.Helper()
	got := map[string]int{}
	_, err := (&Dir{Path: dir}).Redrive(t.Context(), httpfake.Base(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		got[s.Body]++
		return respond(200, req), nil
	}), RedriveOptions{})
	if err != nil {
		t.Error(err)
	}
	return got
}
