package chart

import (
	"bytes"
	"flag"
	"image/png"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

func TestPictures(t *testing.T) {
	s := tiny()
	s.Service.Throttle = &scenario.Throttle{Rate: 5, Burst: 1}
	uses := []string{scenario.UseNone, scenario.UseStandard, scenario.UseAdaptive}
	for _, use := range uses {
		s.Settings = append(s.Settings, scenario.Setting{Use: use})
	}
	drawn := texts(t, mustRun(t, s))
	for i, use := range uses {
		if panels := i + 1; drawn[use] != panels {
			t.Errorf("setting %s has %d panels, want %d", use, drawn[use], panels)
		}
	}
	if drawn["virtual time (s)"] == 0 || drawn["10"] == 0 || drawn["offered load and goodput (1/s)"] != 1 {
		t.Errorf("the axes have no units: %v", drawn)
	}
}

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Names that a file may have, and some that only a program can set.
var hostileNames = []string{
	strings.Repeat("supercalifragilistic", 10),
	strings.Repeat("\U0001f680\U0001f468\u200d\U0001f469\u200d\U0001f467 ", 12),
	"a\x00b\x1b[31mc\nd\te\x7f",
	"e" + strings.Repeat("\u0301", 100),
	`<script>alert(1)</script><style>*{fill:red}</style>"'&amp;]]>` + "<!--",
	"  ",
}

// The pictures have their curves, shades, colors, ticks and texts where they were
// when somebody last looked at them: none touches another, or is cut off.
func TestGolden(t *testing.T) {
	full := busy(6, 8)
	full.Name, full.About = hostileNames[0], hostileNames[1]
	for i, name := range hostileNames {
		full.Settings[i].Name = name
	}
	for name, s := range map[string]scenario.Scenario{"busy": busy(2, 1), "full": full} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Draw(&b, made(s, 300), SVG); err != nil {
				t.Fatal(err)
			}
			file := "testdata/" + name + ".svg"
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s to drawn:\n%s", file, diff)
			}
		})
	}
}

func TestPictureFormats(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseNone})
	r := mustRun(t, s)
	draw := func(format string) []byte {
		var b bytes.Buffer
		if err := Draw(&b, r, format); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	bitmap := draw(PNG)
	image, err := png.Decode(bytes.NewReader(bitmap))
	if err != nil {
		t.Fatal(err)
	}
	if size := image.Bounds().Size(); size.X < 800 || size.Y < 400 {
		t.Errorf("a picture of %v pixels", size)
	}
	if svg := string(draw(SVG)); !strings.Contains(svg, "<title>tiny</title>") ||
		!strings.Contains(svg, "<desc>none: 1.00 attempts per call, 0.0% failed, p99 100ms. 10s, seed 1;") {
		t.Errorf("the picture does not say what it shows: %.3000s", svg)
	}
	if !bytes.Equal(draw(SVG), draw(SVG)) {
		t.Error("drawn again, the picture differs")
	}
	if err := Draw(io.Discard, r, "gif"); err == nil || !strings.Contains(err.Error(), "svg or png") {
		t.Errorf("error %v, want one with the formats", err)
	}
	full, w := io.Pipe()
	full.CloseWithError(io.ErrShortWrite)
	if err := Draw(w, r, SVG); err != io.ErrShortWrite {
		t.Errorf("error %v, want the writer's", err)
	}
}

// A picture of clients that join shows their number instead of the tokens.
func TestPictureOfClientsThatJoin(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseAdaptive}, scenario.Setting{Use: scenario.UseFleet})
	s.Clients = scenario.Clients{Count: 4, Callers: 2}
	s.Service.Throttle = &scenario.Throttle{Rate: 10, Burst: 1}
	s.Events = []scenario.Event{{Kind: scenario.Join, From: seconds(4), To: seconds(8), Clients: 2}}
	drawn := texts(t, mustRun(t, s))
	for _, want := range []string{
		"clients, and throttled attempts (1/s)", "clients", "clients with a lease", "send rate of all clients",
	} {
		if drawn[want] != 1 {
			t.Errorf("%q is %d times in the picture", want, drawn[want])
		}
	}
	if drawn["retry tokens (mean of the clients)"] != 0 {
		t.Error("the picture shows the tokens, too")
	}
}

// A panel without a curve says why.
func TestPanelsWithoutCurves(t *testing.T) {
	s := busy(2, 0)
	s.Settings[0].Use, s.Settings[1].Use = scenario.UseAdaptive, scenario.UseAdaptive
	r := made(s, 300)
	r.Outcomes[0].Calls = 0
	for i := range r.Outcomes[1].Series.SendRate {
		r.Outcomes[1].Series.SendRate[i].Limited = 0
	}
	drawn := texts(t, r)
	if drawn["no calls"] != 1 || drawn["never limited"] != 1 {
		t.Errorf("the texts are %v", drawn)
	}
}

// In a run of a second, a curve is a short line.
func TestSinglePoint(t *testing.T) {
	s := busy(1, 0)
	s.Duration = seconds(1)
	r := made(s, 10)
	r.Outcomes[0].Series.Attempts[0] = 10
	p := newPicture(r)
	for _, l := range p.groups[0].lines(r.Outcomes[0]) {
		if got := l.points[0]; len(got) != 2 || got[0].X != 0 || got[1].X != 1 {
			t.Errorf("%s: %v, want a line from 0 to 1", l.name, got)
		}
	}
}

// A long run has fewer points than seconds, and the title says so.
func TestMeansOfLongRuns(t *testing.T) {
	s := busy(1, 0)
	s.Duration = scenario.Duration(24 * time.Hour)
	p := newPicture(made(s, 10))
	points := p.perSecond(p.Outcomes[0].Series.Good)
	if p.every != 44 || len(points) > 2000 || p.groups[0].title != "offered load and goodput (1/s), means of 44s" {
		t.Errorf("%d points, of %d seconds each, %q", len(points), p.every, p.groups[0].title)
	}
}
