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
		put(t, queue, osDisk{}, post(t, "http://a.example/?token=secret", body))
	}
}

func put(t *testing.T, q *Dir, d disk, req *http.Request) {
	t.Helper()
	if err := q.put(t.Context(), d, DeadLetter{Request: req}); err != nil {
		t.Fatal(err)
	}
}

// send redrives a folder.
func send(t *testing.T, dir string, base httpfake.Base) (Counts, error) {
	t.Helper()
	return (&Dir{Path: dir}).Redrive(t.Context(), base, RedriveOptions{})
}

// ok responds with 200, and does not read the body.
func ok(req *http.Request) (*http.Response, error) { return respond(200, req), nil }

// collect redrives a folder, and counts how often each body arrives.
func collect(t *testing.T, dir string) map[string]int {
	t.Helper()
	got := map[string]int{}
	_, err := send(t, dir, func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		got[s.Body]++
		return respond(200, req), nil
	})
	if err != nil {
		t.Error(err)
	}
	return got
}
