package schedule

import (
	"bytes"
	"encoding/xml"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

// The committed picture shows what the committed policy leads to.
func TestPictureIsCurrent(t *testing.T) {
	got := clitest.Shell{}.Run(t, New, "schedule", "--compare", "--svg", "-", example)
	if got.Status != 0 {
		t.Fatal(got.Err)
	}
	committed, err := os.ReadFile("../../../../../docs/pictures/schedule.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != got.Out {
		t.Error("docs/pictures/schedule.svg is not what is drawn now; make pictures draws it again")
	}
}

// pictureOf returns the picture of a command line.
func pictureOf(t *testing.T, format string, args ...string) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "picture")
	got := clitest.Shell{}.Run(t, New, append([]string{"schedule", "--" + format, name}, args...)...)
	if got.Status != 0 || got.Out == "" {
		t.Fatalf("%+v, want status 0 and a table", got)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSVG(t *testing.T) {
	none := clitest.File(t, "none.json", `{"healthyRetryPolicy": {"numRetries": 0}}`)
	for _, args := range [][]string{
		{example},
		{"--compare", example},
		{policies + "sns-example.json"},
		{"--aws-managed"},
		{"--customer-managed", "--compare"},
		{none},
		{"--compare", none},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			svg := xml.NewDecoder(bytes.NewReader(pictureOf(t, "svg", args...)))
			var err error
			for err == nil {
				_, err = svg.Token()
			}
			if err != io.EOF {
				t.Error(err)
			}
		})
	}
}

func TestPNG(t *testing.T) {
	picture, err := png.Decode(bytes.NewReader(pictureOf(t, "png", "--compare", example)))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != 1536 || size.Y != 864 {
		t.Errorf("the picture has %v pixels", size)
	}
	pixels := map[color.Color]int{}
	for x := 0; x < 1536; x += 3 {
		for y := 0; y < 864; y += 3 {
			pixels[picture.At(x, y)]++
		}
	}
	for _, c := range []color.Color{blue, vermillion, green, purple} {
		if pixels[c] < 100 {
			t.Errorf("%d pixels of every ninth are %v", pixels[c], c)
		}
	}
}

// Every pause has its mark, in its place.
func TestPictureMarks(t *testing.T) {
	got := clitest.Shell{}.Run(t, New, "schedule", "--compare", "--svg", "-", example)
	marks := regexp.MustCompile(`<path d="M([\d.]+),([\d.]+)A[^"]+" style="fill:#0072B2"`).
		FindAllStringSubmatch(got.Out, -1)
	marks = marks[min(len(marks), 1):] // the legend's
	var at [][2]float64
	for _, m := range marks {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		at = append(at, [2]float64{x, y})
	}
	if len(at) != 10 {
		t.Fatalf("%d blue circles, want 10:\n%s", len(at), got.Out)
	}
	for i := range at { // linear: from the first to the last in even steps
		for axis := range 2 {
			want := at[0][axis] + (at[9][axis]-at[0][axis])*float64(i)/9
			if math.Abs(at[i][axis]-want) > 0.02 || at[9][axis] <= at[0][axis] {
				t.Errorf("mark %d is at %v, want %v", i+1, at[i], want)
			}
		}
	}
	for _, hue := range []string{"D55E00", "009E73", "CC79A7"} {
		if n := strings.Count(got.Out, `style="fill:#`+hue+`"`); n != 11 {
			t.Errorf("%d marks in %s, want 10 and the legend's", n, hue)
		}
	}
	if strings.Contains(got.Out, "other phases") {
		t.Error("there are no other phases")
	}

	got = clitest.Shell{}.Run(t, New, "schedule", "--svg", "-", policies+"sns-example.json")
	for hue, n := range map[string]int{"009E73": 3, "D55E00": 2, "0072B2": 10, "CC79A7": 35} {
		if marks := strings.Count(got.Out, `style="fill:#`+hue+`"`); marks != n+1 {
			t.Errorf("%d marks in %s, want %d and the legend's", marks, hue, n)
		}
	}
	got = clitest.Shell{}.Run(t, New, "schedule", "--svg", "-", "--aws-managed")
	if marks := strings.Count(got.Out, `style="fill:#CC79A7"`); marks != tailShown+1 ||
		!strings.Contains(got.Out, "the first 40 of 100,015") {
		t.Errorf("%d marks of the post-backoff phase, want %d and the legend's, and a note", marks, tailShown)
	}
}

func TestPictureTitles(t *testing.T) {
	for _, c := range []struct{ policy, want string }{
		{`{}`, "A delivery policy of 3 retries, 20 s apart"},
		{`{"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}}`,
			"A delivery policy of 2 retries, at once"},
		{`{"healthyRetryPolicy": {"numRetries": 1, "numMaxDelayRetries": 1, "minDelayTarget": 1}}`,
			"A delivery policy of 1 retry, 20 s apart"},
		{`{"healthyRetryPolicy": {"numRetries": 3, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 7}}`,
			"A delivery policy of 3 retries, 1 s to 7 s apart"},
		{`{"healthyRetryPolicy": {"numRetries": 0}}`, "A delivery policy without retries"},
	} {
		t.Run(c.want, func(t *testing.T) {
			got := clitest.Shell{In: strings.NewReader(c.policy)}.Run(t, New, "schedule", "--svg", "-", "-")
			if !strings.Contains(got.Out, ">"+c.want+"</text>") {
				t.Errorf("the title is not in\n%s", got.Out)
			}
		})
	}
}
