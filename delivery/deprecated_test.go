package delivery

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"
)

// The deprecated names do what those of package letters do.
func TestDeprecatedLetters(t *testing.T) {
	dir, dead := t.TempDir(), DeadLetter{Request: post(t, "http://a.example/", "hello")}
	for range 3 {
		dead.Request.Body, _ = dead.Request.GetBody()
		if err := DirQueue(dir)(t.Context(), dead); err != nil {
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
	dead.Request.Body, _ = dead.Request.GetBody()
	err := WriteLetter(&b, dead, time.Now())
	letter, req, errRead := ReadLetter(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || errRead != nil || letter.Method != "POST" || req.URL.Host != "a.example" {
		t.Errorf("WriteLetter: %v; ReadLetter: %+v, %+v, %v", err, letter, req, errRead)
	}
	p := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: "text/xml"}}
	if raw, wrapped := p.Validate(true), p.Validate(false); raw != nil || wrapped == nil {
		t.Errorf("Validate: raw %v, wrapped %v", raw, wrapped)
	}
}
