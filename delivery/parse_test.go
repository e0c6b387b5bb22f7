package delivery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func seeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"healthyRetryPolicy":{"numRetries":1,"numRetries":1}}`))
	f.Add([]byte(`{"http":{"disableSubscriptionOverrides":true}}`))
}

func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v, %v", p, err)
		}
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse(again)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
		if diff := cmp.Diff(p, q, retryFields); diff != "" {
			t.Fatalf("%s became %s:\n%s", text, again, diff)
		}
		n, total := 0, time.Duration(0)
		for d := range p.Delays() {
			if n++; d < 0 || d > maxDelayTarget*time.Second {
				t.Fatalf("%s: a pause of %v", text, d)
			}
			total += d
		}
		if n > maxNumRetries || total > maxTotal+time.Microsecond {
			t.Fatalf("%s: %d retries in %v", text, n, total)
		}
	})
}

func FuzzParseTopic(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseTopic(text)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v, %v", p, err)
		}
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseTopic(again)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
		if diff := cmp.Diff(p, q, retryFields); diff != "" {
			t.Fatalf("%s became %s:\n%s", text, again, diff)
		}
		if err := Effective(p, nil).limits(); err != nil {
			t.Fatalf("%s: its effective policy: %v", text, err)
		}
	})
}
