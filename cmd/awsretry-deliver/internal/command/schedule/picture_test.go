package schedule

import (
	"os"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

// svgOf returns the picture of a command line as SVG.
func svgOf(t *testing.T, policy string, args ...string) string {
	t.Helper()
	shell := clitest.Shell{In: strings.NewReader(policy)}
	got := shell.Run(t, New, append([]string{"schedule", "--svg", "-"}, args...)...)
	if got.Status != 0 || got.Err != "" {
		t.Fatalf("%+v", got)
	}
	return got.Out
}

// The committed picture is drawn from the committed policy.
func TestPictureIsCurrent(t *testing.T) {
	committed := clitest.Must[[]byte](t)(os.ReadFile("../../../../../docs/pictures/schedule.svg"))
	if string(committed) != svgOf(t, "", "--compare", example) {
		t.Error("docs/pictures/schedule.svg is not what is drawn now; make pictures draws it again")
	}
}

// Every pause has a mark, and so has the legend. TestPictureIsCurrent checks where
// the marks are.
func TestPictureMarks(t *testing.T) {
	for _, c := range []struct {
		args  string
		marks map[string]int // by their colors, without the legend's
		text  string
	}{
		{policies + "/sns-example.json", map[string]int{"009E73": 3, "D55E00": 2, "0072B2": 10, "CC79A7": 35},
			"Number of the retry<"},
		{"--compare " + policies + "/sns-example.json",
			map[string]int{"009E73": 10, "D55E00": 10, "0072B2": 10, "CC79A7": 10, "888888": 40}, "other phases"},
	} {
		got := svgOf(t, "", strings.Fields(c.args)...)
		for hue, n := range c.marks {
			if marks := strings.Count(got, `style="fill:#`+hue+`"`); marks != n+1 {
				t.Errorf("%s: %d marks in %s, want %d and the legend's", c.args, marks, hue, n)
			}
		}
		if !strings.Contains(got, c.text) {
			t.Errorf("%s: the picture lacks %q", c.args, c.text)
		}
	}
}

func TestPictureTitles(t *testing.T) {
	for policy, want := range map[string]string{
		`"numRetries": 3, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 7`: "3 retries, 1 s to 7 s apart",
		`"numRetries": 1, "numMaxDelayRetries": 1, "minDelayTarget": 1`:                     "1 retry, 20 s apart",
		`"numRetries": 2, "numNoDelayRetries": 2`:                                           "2 retries, at once",
	} {
		got := svgOf(t, `{"healthyRetryPolicy": {`+policy+`}}`, "-")
		if !strings.Contains(got, ">A delivery policy of "+want+"</text>") {
			t.Errorf("the title %q is not in\n%s", want, got)
		}
	}
	if !strings.Contains(svgOf(t, `{"healthyRetryPolicy": {"numRetries": 0}}`, "-"), "policy without retries</text>") {
		t.Error("the title of a policy without retries is missing")
	}
}

func TestEvenTicks(t *testing.T) {
	for _, c := range []struct {
		most      evenTicks
		low, high float64
		want      string
	}{
		{16, 1, 2, "1 2"},
		{16, 1, 20, "1 2 4 6 8 10 12 14 16 18 20"},
		{16, 1, 50, "1 5 10 15 20 25 30 35 40 45 50"},
		{6, 0, 3600, "0 1000 2000 3000"},
	} {
		var labels []string
		for _, tick := range c.most.Ticks(c.low, c.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%d from %v to %v: got %s, want %s", c.most, c.low, c.high, got, c.want)
		}
	}
}
