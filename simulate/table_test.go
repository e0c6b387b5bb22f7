package simulate

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTableGolden(t *testing.T) {
	s, err := scenario.Ready("throttle")
	if err != nil {
		t.Fatal(err)
	}
	s.Duration, s.Clients.Count, s.Service.Capacity = seconds(60), 10, 200
	s.Events = []scenario.Event{
		{Kind: scenario.Throttling, From: seconds(10), To: seconds(40), Throttle: &scenario.Throttle{Rate: 50}},
		{Kind: scenario.Errors, From: seconds(20), To: seconds(25), Share: 0.25},
	}
	s.Settings = append(s.Settings,
		scenario.Setting{Use: scenario.UseNaive, Name: "no time for anybody", Pause: seconds(1), MaxAttempts: 100})
	r := mustRun(t, s)
	r.Outcomes = append(r.Outcomes, Outcome{Setting: "nobody called"})
	var got bytes.Buffer
	if err := r.WriteTable(&got, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "table.golden")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
	if err := r.WriteTable(brokenWriter{}, 0); !errors.Is(err, errBrokenWriter) {
		t.Errorf("error %v, want the writer's", err)
	}
}

var errBrokenWriter = errors.New("full")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBrokenWriter }

// Calls that did not end have a column and a warning, if they are many.
func TestUnfinishedCalls(t *testing.T) {
	for unfinished, want := range map[int64]bool{10: false, 500: true} {
		r := &Result{Outcomes: []Outcome{{Setting: "adaptive", Calls: 1000, Good: 1000 - unfinished, Unfinished: unfinished}}}
		var out strings.Builder
		if err := r.WriteTable(&out, 0); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "unfin-"); got != want {
			t.Errorf("%d unfinished:\n%s", unfinished, out.String())
		}
		if got := strings.Contains(out.String(), "warning: adaptive: 50.0% of the calls had not ended"); got != want {
			t.Errorf("%d unfinished:\n%s", unfinished, out.String())
		}
	}
}
