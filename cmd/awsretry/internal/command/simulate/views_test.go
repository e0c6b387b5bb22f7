package simulate

import (
	"os"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/cmd/internal/term"
)

// A shell reads the command in the report as it was typed.
func TestTyped(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--seed", "5", "outage", "--duration=2m"},
			"awsretry simulate outage --seed 5 --duration 2m0s"},
		{[]string{"outage", "--json", "--picture", "a.svg", "--report", "b.html"},
			"awsretry simulate outage"},
		{[]string{"it's mine.yaml"}, `awsretry simulate 'it'\''s mine.yaml'`},
		{[]string{"outage", "--settings", "none", "--settings", `"delivery=a,b.json"`},
			`awsretry simulate outage --settings 'none,"delivery=a,b.json"'`},
		{[]string{"$HOME/*.yaml"}, "awsretry simulate '$HOME/*.yaml'"},
	} {
		t.Run(c.want, func(t *testing.T) {
			cmd := New(term.Streams{})
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			if got := typed(cmd, cmd.Flags().Args()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A scenario with neither a name, a sentence about it nor an event.
func TestPictureOfANamelessScenario(t *testing.T) {
	file := clitest.File(t, "nameless.yaml", "duration: 10s\nclients: {count: 1, callers: 1}\n"+
		"service: {capacity: 100, queue: 10, latency: {median: 10ms}}\nsettings: [none]\n")
	r := clitest.Shell{}.Run(t, New, "simulate", file, "--picture", file+".png")
	if info, err := os.Stat(file + ".png"); r.Status != 0 || err != nil || info.Size() == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
