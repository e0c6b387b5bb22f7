package delivery

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
	"time"
)

// The deprecated names do what those of package letters do.
func TestDeprecatedLetters(t *testing.T) {
	dir := t.TempDir()
	put := DirQueue(dir)
	for range 3 {
		if err := put(t.Context(), DeadLetter{Request: post(t, "http://a.example/", "hello")}); err != nil {
			t.Fatal(err)
		}
	}
	var listed []Letter
	for letter, err := range List(dir) {
		if err != nil {
			t.Error(err)
		}
		listed = append(listed, letter)
	}
	if len(listed) != 3 || listed[0].URL != "http://a.example/" {
		t.Errorf("List: %+v", listed)
	}
	var observed []Result
	redriver := &Redriver{Observe: func(r LetterResult) { observed = append(observed, r.Result) }}
	redriver.DryRun, redriver.Limit = true, 2
	if done, err := redriver.Redrive(t.Context(), dir); done != (Redriven{Unsent: 2}) || err != nil {
		t.Errorf("a dry run: %+v, %v", done, err)
	}
	redriver.DryRun, redriver.Limit, redriver.MaxFailures = false, 0, 1
	redriver.Base = responding(503)
	done, err := redriver.Redrive(t.Context(), dir)
	if done != (Redriven{Kept: 1}) || !errors.Is(err, ErrMaxFailures) {
		t.Errorf("a failure: %+v, %v", done, err)
	}
	if len(observed) != 3 || observed[1] != Unsent || observed[2] != Kept {
		t.Errorf("Observe: %q", observed)
	}
	if done, err := Redrive(t.Context(), dir, responding(200)); done != (Redriven{Delivered: 3}) || err != nil {
		t.Errorf("Redrive: %+v, %v", done, err)
	}
}

func TestDeprecatedWriteLetter(t *testing.T) {
	var b bytes.Buffer
	if err := WriteLetter(&b, DeadLetter{Request: post(t, "http://a.example/", "hello")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	letter, req, err := ReadLetter(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := receive(req); letter.Method != http.MethodPost || got.Body != "hello" || err != nil {
		t.Errorf("got %+v, %+v, %v", letter, got, err)
	}
}

func TestDeprecatedValidate(t *testing.T) {
	p := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "text/xml"}}
	if err := p.Validate(true); err != nil {
		t.Errorf("raw: got %v", err)
	}
	if err := p.Validate(false); err == nil {
		t.Error("wrapped: no error")
	}
}
