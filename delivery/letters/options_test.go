package letters

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
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
