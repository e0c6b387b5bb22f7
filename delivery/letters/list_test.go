package letters

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
