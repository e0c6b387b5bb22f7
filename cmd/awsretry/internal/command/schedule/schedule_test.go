package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/cmd/awsretry/internal/regular"
)

const (
	policies = "../../delivery/testdata/"
	example  = "../../docs/examples/delivery-policy.json"
)

func TestScheduleGolden(t *testing.T) {
	for _, c := range []struct {
		golden string
		stdin  string
		args   []string
	}{
		{"schedule.txt", "", []string{policies + "sns-example.json"}},
		{"schedule.json", "", []string{"--json", policies + "sns-example.json"}},
		{"schedule-all.txt", "", []string{"--all", policies + "sns-example.json"}},
		{"schedule-compare.txt", "", []string{"--compare", example}},
		{"schedule-compare.json", "", []string{"--compare", "--json", policies + "one-backoff-retry.json"}},
		{"schedule-topic.txt", "", []string{policies + "topic.json"}},
		{"schedule-defaults.txt", `{}`, []string{"-"}},
		{"schedule-no-retries.txt", `{"http": {"defaultHealthyRetryPolicy": {"numRetries": 0}}}`, []string{"--topic", "-"}},
		{"schedule-raw.txt", `{"requestPolicy": {"headerContentType": "text/csv"}, "throttlePolicy": {"maxReceivesPerSecond": 1}}`, []string{"-"}},
		{"schedule-refused.txt", `{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 800, "numRetries": 9, "backoffFunction": "exponential"}}`,
			[]string{"--compare", "-"}},
		{"schedule-aws-managed.txt", "", []string{"--aws-managed"}},
		{"schedule-customer-managed.txt", "", []string{"--customer-managed", "--compare"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			got := shell{stdin: strings.NewReader(c.stdin)}.run(t, append([]string{"schedule"}, c.args...)...)
			if got.status != 0 || got.stderr != "" {
				t.Fatalf("status %d, standard error:\n%s", got.status, got.stderr)
			}
			golden(t, c.golden, got.stdout)
		})
	}
}

// A printedPlan is what --json prints.
type printedPlan struct {
	Retries, Attempts int
	Schedules         []struct {
		Function string  `json:"backoff_function"`
		Total    float64 `json:"total_seconds"`
		Pauses   []struct {
			First int     `json:"first_retry"`
			Last  int     `json:"last_retry"`
			Pause float64 `json:"pause_seconds"`
			Total float64 `json:"total_seconds"`
		}
	}
}

func planOf(t *testing.T, args ...string) printedPlan {
	t.Helper()
	got := shell{}.run(t, append([]string{"schedule", "--json"}, args...)...)
	if got.status != 0 {
		t.Fatal(got.stderr)
	}
	var plan printedPlan
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// What is printed is what package delivery's own golden files have, which another program worked out.
func TestScheduleIsTheDeliverys(t *testing.T) {
	files, err := filepath.Glob(policies + "*.golden")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		policy := strings.TrimSuffix(file, ".golden") + ".json"
		if _, err := os.Stat(policy); err != nil {
			continue // a fixed policy's
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		printed := "# retry\tpause (s)\ttotal (s)\n"
		for _, p := range planOf(t, "--all", policy).Schedules[0].Pauses {
			printed += fmt.Sprintf("%d\t%.9f\t%.9f\n", p.First, p.Pause, p.Total)
		}
		if diff := cmp.Diff(string(want), printed); diff != "" {
			t.Errorf("%s to printed:\n%s", file, diff)
		}
		compared++
	}
	if compared < 8 {
		t.Errorf("only %d policies were compared", compared)
	}
}

func TestScheduleUnfolded(t *testing.T) {
	const retries, total = 100_015, 2_000_049.665362035
	folded := planOf(t, "--aws-managed").Schedules[0]
	if n := len(folded.Pauses); n != 16 || math.Abs(folded.Total-total) > 1e-6 || folded.Pauses[n-1].Total != folded.Total {
		t.Errorf("%d lines up to %.9f, want 16 up to %.9f", n, folded.Total, total)
	}
	got := shell{}.run(t, "schedule", "--aws-managed", "--all")
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^100,015  post-backoff  20\.000 s  23 d 03 h 34 min 09\.665 s$`).MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
	if n := len(lines); n != retries+10 {
		t.Errorf("%d lines, want one for each of %d retries and 10 above", n, retries)
	}
}

func TestScheduleErrors(t *testing.T) {
	folder := t.TempDir()
	long := filepath.Join(folder, "long.json")
	if err := os.WriteFile(long, bytes.Repeat([]byte(" "), regular.MaxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		stdin  string
		args   []string
		status int
		want   []string
	}{
		{"nothing", "", nil, exitUsage, []string{"POLICY.json is missing", "See awsretry schedule --help"}},
		{"two policies", "", []string{"a", "b"}, exitUsage, []string{`"b" is one too many`}},
		{"a file and a fixed policy", "", []string{"--aws-managed", "a"}, exitUsage, []string{`"a" is one too many`}},
		{"two fixed policies", "", []string{"--aws-managed", "--customer-managed"}, exitUsage, []string{"one is shown at a time"}},
		{"topic that is no file", "", []string{"--aws-managed", "--topic"}, exitUsage, []string{"--topic"}},
		{"two pictures on one output", "", []string{"--svg=-", "--png=-", "-"}, exitUsage, []string{"--svg and --png"}},
		{"a picture and JSON on one output", "", []string{"--svg=-", "--json", "-"}, exitUsage, []string{"--json"}},
		{"no such file", "", []string{filepath.Join(folder, "none.json")}, 1, []string{"none.json", "no such file"}},
		{"folder", "", []string{folder}, 1, []string{folder + " is not a regular file"}},
		{"too long", "", []string{long}, 1, []string{"long.json has more than 1048576 bytes"}},
		{"device", "", []string{os.DevNull}, 1, []string{os.DevNull + " is not a regular file", "- for standard input"}},
		{"syntax after a byte order mark", "\ufeff{,}", []string{"-"}, 1, []string{"standard input:1:2: not JSON"}},
		{"empty", "", []string{"-"}, 1, []string{"standard input:1:1: not JSON"}},
		{"syntax", "{\n  \"healthyRetryPolicy\": {\"numRetries\": 3,}\n}", []string{"-"}, 1, []string{"standard input:2:42: not JSON: invalid character '}'"}},
		{"one fault", `{"healthyRetryPolicy": {"numRetries": 101}}`, []string{"-"}, 1,
			[]string{"awsretry schedule: standard input: healthyRetryPolicy.numRetries is 101; it must be a whole number, 0 to 100\n"}},
		{"two faults", `{"healthyRetryPolicy": {"numRetries": 101, "minDelayTarget": 0}}`, []string{"-"}, 1,
			[]string{"standard input has 2 faults:\n  healthyRetryPolicy.minDelayTarget is 0; ", "\n  healthyRetryPolicy.numRetries is 101; "}},
		{"fault of a topic", `{"http": {"defaultThrottlePolicy": {"maxReceivesPerSecond": 0}}}`, []string{"-"}, 1,
			[]string{"http.defaultThrottlePolicy.maxReceivesPerSecond is 0"}},
		{"content type of a topic", `{"http": {"defaultRequestPolicy": {"headerContentType": "text/csv"}}}`, []string{"-"}, 1,
			[]string{`http.defaultRequestPolicy.headerContentType is "text/csv"`}},
		{"subscription said to be a topic", `{"healthyRetryPolicy": {}}`, []string{"--topic", "-"}, 1,
			[]string{`"healthyRetryPolicy" is not an attribute of a delivery policy; allowed here: http`}},
		{"too long in all", `{"healthyRetryPolicy": {"minDelayTarget": 3600, "maxDelayTarget": 3600}}`, []string{"-"}, 1, []string{"the sum of the pauses is 10800 s"}},
		{"no folder for the picture", "{}", []string{"--svg", filepath.Join(folder, "none", "x.svg"), "-"}, 1, []string{"no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shell{stdin: strings.NewReader(c.stdin)}.run(t, append([]string{"schedule"}, c.args...)...)
			if got.status != c.status || got.stdout != "" {
				t.Errorf("status %d, standard output %q; want status %d and no output", got.status, got.stdout, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q does not say %q", got.stderr, want)
				}
			}
			if strings.Contains(got.stderr, "delivery: ") {
				t.Errorf("%q names a package", got.stderr)
			}
		})
	}
}

// The committed picture shows what the committed policy leads to.
func TestPictureIsCurrent(t *testing.T) {
	got := shell{}.run(t, "schedule", "--compare", "--svg", "-", example)
	if got.status != 0 {
		t.Fatal(got.stderr)
	}
	committed, err := os.ReadFile("../../docs/pictures/schedule.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != got.stdout {
		t.Error("docs/pictures/schedule.svg is not what is drawn now; make pictures draws it again")
	}
}

func TestPicturesDecode(t *testing.T) {
	folder := t.TempDir()
	none := filepath.Join(folder, "none.json")
	if err := os.WriteFile(none, []byte(`{"healthyRetryPolicy": {"numRetries": 0}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	draw := func(t *testing.T, format string, args []string) []byte {
		t.Helper()
		name := filepath.Join(folder, "picture")
		got := shell{}.run(t, append([]string{"schedule", "--" + format, name}, args...)...)
		if got.status != 0 || got.stdout == "" {
			t.Fatalf("%q: status %d, %s", args, got.status, got.stderr)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, args := range [][]string{
		{example}, {"--compare", example}, {policies + "sns-example.json"}, {"--aws-managed"}, {"--customer-managed", "--compare"}, {none}, {"--compare", none},
	} {
		first := draw(t, "svg", args)
		svg, err := xml.NewDecoder(bytes.NewReader(first)), error(nil)
		for err == nil {
			_, err = svg.Token()
		}
		if err != io.EOF {
			t.Errorf("%q: %v", args, err)
		}
		if !bytes.Equal(first, draw(t, "svg", args)) {
			t.Errorf("%q: two pictures of one policy differ", args)
		}
	}
	args := []string{"--compare", example}
	first := draw(t, "png", args)
	picture, err := png.Decode(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != 1536 || size.Y != 864 {
		t.Errorf("the picture has %v pixels", size)
	}
	coloured := map[color.Color]int{}
	for x := range 1536 {
		for y := range 864 {
			coloured[picture.At(x, y)]++
		}
	}
	for _, c := range []color.Color{blue, vermillion, green, purple} {
		if coloured[c] < 1000 {
			t.Errorf("%d pixels are %v", coloured[c], c)
		}
	}
	if !bytes.Equal(first, draw(t, "png", args)) {
		t.Error("two pictures of one policy differ")
	}
}

// Every pause has its mark, in its place.
func TestPictureMarks(t *testing.T) {
	got := shell{}.run(t, "schedule", "--compare", "--svg", "-", example)
	marks := regexp.MustCompile(`<path d="M([\d.]+),([\d.]+)A[^"]+" style="fill:#0072B2"`).FindAllStringSubmatch(got.stdout, -1)
	marks = marks[min(len(marks), 1):] // the legend's
	var at [][2]float64
	for _, m := range marks {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		at = append(at, [2]float64{x, y})
	}
	if len(at) != 10 {
		t.Fatalf("%d blue circles, want 10:\n%s", len(at), got.stdout)
	}
	for i := range at { // linear: from the first to the last in even steps
		for axis := range 2 {
			want := at[0][axis] + (at[9][axis]-at[0][axis])*float64(i)/9
			if math.Abs(at[i][axis]-want) > 0.02 || at[9][axis] <= at[0][axis] {
				t.Errorf("mark %d is at %v, want %v", i+1, at[i], want)
			}
		}
	}
	for _, colour := range []string{"D55E00", "009E73", "CC79A7"} {
		if n := strings.Count(got.stdout, `style="fill:#`+colour+`"`); n != 11 {
			t.Errorf("%d marks in %s, want 10 and the legend's", n, colour)
		}
	}
	if strings.Contains(got.stdout, "other phases") {
		t.Error("there are no other phases")
	}

	got = shell{}.run(t, "schedule", "--svg", "-", policies+"sns-example.json")
	for colour, n := range map[string]int{"009E73": 3, "D55E00": 2, "0072B2": 10, "CC79A7": 35} {
		if marks := strings.Count(got.stdout, `style="fill:#`+colour+`"`); marks != n+1 {
			t.Errorf("%d marks in %s, want %d and the legend's", marks, colour, n)
		}
	}
	got = shell{}.run(t, "schedule", "--svg", "-", "--aws-managed")
	if marks := strings.Count(got.stdout, `style="fill:#CC79A7"`); marks != tailShown+1 || !strings.Contains(got.stdout, "the first 40 of 100,015") {
		t.Errorf("%d marks of the post-backoff phase, want %d and the legend's, and a note", marks, tailShown)
	}
}

func TestPictureTitles(t *testing.T) {
	for stdin, want := range map[string]string{
		`{}`: "A delivery policy of 3 retries, 20 s apart",
		`{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`:                                         "A delivery policy of 2 retries, at once",
		`{"healthyRetryPolicy": {"numRetries": 1, "numMaxDelayRetries": 1, "minDelayTarget":1}}`:                    "A delivery policy of 1 retry, 20 s apart",
		`{"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 1, "minDelayTarget":1, "maxDelayTarget":7}}`: "A delivery policy of 3 retries, 1 s to 7 s apart",
		`{"healthyRetryPolicy": {"numRetries": 0}}`:                                                                 "A delivery policy without retries",
	} {
		got := shell{stdin: strings.NewReader(stdin)}.run(t, "schedule", "--svg", "-", "-")
		if !strings.Contains(got.stdout, ">"+want+"</text>") {
			t.Errorf("%s: no %q in\n%s", stdin, want, got.stdout)
		}
	}
}

func TestEvenTicks(t *testing.T) {
	for _, c := range []struct {
		most      evenTicks
		low, high float64
		want      string
	}{
		{16, 1, 2, "1 2"},
		{16, 1, 10, "1 2 3 4 5 6 7 8 9 10"},
		{16, 1, 20, "1 2 4 6 8 10 12 14 16 18 20"},
		{16, 1, 50, "1 5 10 15 20 25 30 35 40 45 50"},
		{6, 0, 1, "0 1"},
		{6, 0, 60, "0 10 20 30 40 50 60"},
		{6, 0, 260, "0 50 100 150 200 250"},
		{6, 0, 3600, "0 1000 2000 3000"},
	} {
		var labels []string
		for _, tick := range c.most.Ticks(c.low, c.high) {
			labels = append(labels, tick.Label)
			if v, err := strconv.ParseFloat(tick.Label, 64); err != nil || v != tick.Value {
				t.Errorf("%q stands at %v", tick.Label, tick.Value)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("from %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		d        time.Duration
		decimals int
		want     string
	}{
		{0, 0, "0 s"},
		{1500 * time.Millisecond, 3, "1.500 s"},
		{59*time.Second + 999600*time.Microsecond, 3, "1 min 00.000 s"},
		{59*time.Second + 499*time.Millisecond, 0, "59 s"},
		{time.Hour - 1, 0, "1 h 00 min 00 s"},
		{3*time.Hour + 2*time.Minute + 5*time.Second, 0, "3 h 02 min 05 s"},
		{49*time.Hour + time.Second, 3, "2 d 01 h 00 min 01.000 s"},
	} {
		if got := span(c.d, c.decimals); got != c.want {
			t.Errorf("%v to %d decimals is %q, want %q", c.d, c.decimals, got, c.want)
		}
	}
}

func TestScheduleColours(t *testing.T) {
	for _, c := range []struct {
		shell   shell
		args    []string
		colours bool
	}{
		{shell{terminals: []string{"stdout"}}, nil, true},
		{shell{terminals: []string{"stdout"}, env: map[string]string{"NO_COLOR": "1"}}, nil, false},
		{shell{terminals: []string{"stdout"}}, []string{"--json"}, false},
		{shell{}, nil, false},
	} {
		got := c.shell.run(t, slices.Concat([]string{"schedule", "--compare", example}, c.args)...)
		if colours := strings.Contains(got.stdout, "\x1b["); colours != c.colours {
			t.Errorf("%+v %q: colours: %t, want %t", c.shell, c.args, colours, c.colours)
		}
	}
	refused := shell{
		terminals: []string{"stdout"},
		stdin:     strings.NewReader(`{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 800, "numRetries": 9, "backoffFunction": "geometric"}}`),
	}.run(t, "schedule", "--compare", "-")
	if n := strings.Count(refused.stdout, "\x1b[31m"); n != 2 || !strings.Contains(refused.stdout, "\x1b[31m1 h 00 min 05 s") {
		t.Errorf("%d red cells in %q; want the total that is refused, and why", n, refused.stdout)
	}
}

func TestScheduleHelp(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"schedule", "--help"}, []string{"Exit status: 0 success; 1 ", "\nPolicy:\n", "\nOutput:\n", "--svg FILE", "\nExamples:\n"}},
		{[]string{"deadletter", "list", "--help"}, []string{"Exit status: 0 success; 1 ", "--json"}},
		{[]string{"deadletter", "redrive", "--help"}, []string{"Exit status: 0 all letters were delivered; 22 ", "--policy FILE", "--attempt-timeout TIME"}},
		{[]string{"--help"}, []string{"schedule ", "deadletter "}},
	} {
		got := shell{}.run(t, c.args...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%q: status %d, standard error %q", c.args, got.status, got.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%q prints %q without %q", c.args, got.stdout, want)
			}
		}
	}
}

// A policy that Amazon SNS returned, in a file that an editor on Windows saved.
func TestSchedulePolicyFromAmazon(t *testing.T) {
	for _, text := range []string{
		`{"healthyRetryPolicy": {"numRetries": 4}, "sicklyRetryPolicy": null, "throttlePolicy": null, "guaranteed": false}`,
		`{"http": {"defaultHealthyRetryPolicy": {"numRetries": 4}, "defaultThrottlePolicy": null, "defaultRequestPolicy": {"headerContentType": "text/plain; charset=UTF-8"}}}`,
	} {
		got := shell{stdin: strings.NewReader("\ufeff" + text)}.run(t, "schedule", "-")
		if got.status != 0 || !strings.Contains(got.stdout, "4 retries") {
			t.Errorf("%s: status %d, %s%s", text, got.status, got.stderr, got.stdout)
		}
	}
}
