package delivery

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
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
	listed := 0
	for letter, err := range List(dir) {
		if listed++; err != nil || letter.URL != "http://a.example/" {
			t.Errorf("List: %+v, %v", letter, err)
		}
	}
	var observed []Result
	observe := func(r LetterResult) { observed = append(observed, r.Result) }
	dry := &Redriver{DryRun: true, Limit: 2, Observe: observe}
	if done, err := dry.Redrive(t.Context(), dir); done != (Redriven{Unsent: 2}) || err != nil {
		t.Errorf("a dry run: %+v, %v", done, err)
	}
	failing := &Redriver{Base: responding(503), MaxFailures: 1, Observe: observe}
	if done, err := failing.Redrive(t.Context(), dir); done != (Redriven{Kept: 1}) || !errors.Is(err, ErrMaxFailures) {
		t.Errorf("a failure: %+v, %v", done, err)
	}
	if listed != 3 || !slices.Equal(observed, []Result{Unsent, Unsent, Kept}) {
		t.Errorf("%d letters; Observe: %q", listed, observed)
	}
	if done, err := Redrive(t.Context(), dir, responding(200)); done != (Redriven{Delivered: 3}) || err != nil {
		t.Errorf("Redrive: %+v, %v", done, err)
	}
	var b bytes.Buffer
	if err := WriteLetter(&b, DeadLetter{Request: post(t, "http://a.example/", "hello")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if letter, req, err := ReadLetter(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil {
		t.Error(err)
	} else if got, err := receive(req); letter.Method != http.MethodPost || got.Body != "hello" || err != nil {
		t.Errorf("ReadLetter: %+v, %+v, %v", letter, got, err)
	}
	p := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "text/xml"}}
	if raw, wrapped := p.Validate(true), p.Validate(false); raw != nil || wrapped == nil {
		t.Errorf("Validate: raw %v, wrapped %v", raw, wrapped)
	}
}
