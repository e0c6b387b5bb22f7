package simulate

import (
	"encoding/json"
	"strings"
	"testing"
)

// Unfinished calls have a column and a warning, if there are many.
func TestUnfinishedCalls(t *testing.T) {
	for unfinished, want := range map[int64]bool{10: false, 500: true} {
		r := &Result{Outcomes: []Outcome{{Setting: "adaptive", Calls: 1000, Good: 1000 - unfinished, Unfinished: unfinished}}}
		var out strings.Builder
		if err := r.WriteTable(&out, 0); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), `{"warnings":["adaptive: 50.0% of the calls`); got != want {
			t.Errorf("%d unfinished: %s", unfinished, text)
		}
		if got := strings.Contains(r.Outcomes[0].Figures(), "p99 at least "); got != want {
			t.Errorf("%d unfinished: %s", unfinished, r.Outcomes[0].Figures())
		}
		if got := strings.Contains(out.String(), "unfin-"); got != want {
			t.Errorf("%d unfinished:\n%s", unfinished, out.String())
		}
		if got := strings.Contains(out.String(), "warning: adaptive: 50.0% of the calls had not ended"); got != want {
			t.Errorf("%d unfinished:\n%s", unfinished, out.String())
		}
	}
}

// Columns that do not fit follow in other tables, each with the setting. A dash
// means not measured.
func TestNarrowTable(t *testing.T) {
	const width = 60
	r := &Result{Outcomes: []Outcome{
		{Setting: "nobody called"}, {Setting: "lost", Recovered: NotRecovered, Recovery: 5e9},
	}}
	var out strings.Builder
	if err := r.WriteTable(&out, width); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.String(), "\n\n")
	for line := range strings.Lines(table) {
		if len(line) > width+1 {
			t.Errorf("a line is wider than %d: %q", width, line)
		}
	}
	if strings.Count(table, "nobody called") < 2 ||
		!strings.Contains(table, " - ") || !strings.Contains(table, "over 5s") {
		t.Errorf("the table is %s", table)
	}
}
