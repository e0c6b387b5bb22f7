package picture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	canvas "gonum.org/v1/plot/vg/recorder"

	"example.com/awsretry/cmd/awsretry/simulate/scenario"
)

// A label is a text with the room that it takes in a viewer whose font is a
// sixth wider.
type label struct {
	text string
	vg.Rectangle
}

func (l label) touches(o label) bool {
	return l.Min.X < o.Max.X && o.Min.X < l.Max.X && l.Min.Y < o.Max.Y && o.Min.Y < l.Max.Y
}

// labels returns the texts that were drawn.
func labels(c *canvas.Canvas) []label {
	const wider = 7. / 6
	var all []label
	for _, action := range c.Actions {
		f, ok := action.(*canvas.FillString)
		if !ok {
			continue
		}
		font := f.Font
		font.Size = f.Size
		style := draw.TextStyle{Font: font, Handler: textStyle(inkText, 1, false).Handler}
		all = append(all, label{f.String, vg.Rectangle{
			Min: vg.Point{X: f.Point.X, Y: f.Point.Y - 0.15*f.Size},
			Max: vg.Point{X: f.Point.X + wider*style.Width(f.String), Y: f.Point.Y + 0.75*f.Size},
		}})
	}
	return all
}

// checkLabels fails if texts touch or are cut off.
func checkLabels(t *testing.T, all []label, area vg.Rectangle) {
	t.Helper()
	for i, l := range all {
		if l.Min.X < area.Min.X || l.Max.X > area.Max.X || l.Min.Y < area.Min.Y || l.Max.Y > area.Max.Y {
			t.Errorf("%q at %v is cut off by %v", l.text, l.Rectangle, area)
		}
		for _, other := range all[:i] {
			if l.touches(other) {
				t.Errorf("%q at %v touches %q at %v", l.text, l.Rectangle, other.text, other.Rectangle)
			}
		}
	}
}

func TestLegendLayout(t *testing.T) {
	for _, size := range []float64{6, 9, 12, 18, 24} {
		for _, width := range []vg.Length{250, 420, 500, 1000} {
			t.Run(fmt.Sprintf("%v pt in %v", size, width), func(t *testing.T) {
				l := newLegend(textStyle(inkText, size, false), true)
				var c canvas.Canvas
				area := vg.Rectangle{Max: vg.Point{X: width, Y: l.height(width)}}
				l.draw(draw.Canvas{Canvas: &c, Rectangle: area})
				all := labels(&c)
				if len(all) != len(l.keys) {
					t.Errorf("%d keys, want %d", len(all), len(l.keys))
				}
				checkLabels(t, all, area)
			})
		}
	}
}

func TestPictureLayout(t *testing.T) {
	long := strings.Repeat("<long> ", 14)
	events := func(n int) (all []scenario.Event) {
		for i := range n {
			all = append(all, scenario.Event{Kind: scenario.Herd, From: seconds(float64(i)), To: seconds(float64(i) + 0.5), Calls: 1000})
		}
		return all
	}
	base := scenario.Scenario{
		Name: "throttle", About: "For two minutes the service allows less.", Duration: seconds(60),
		Clients: scenario.Clients{Count: 100, Rate: 300}, Service: scenario.Service{Capacity: 360, Queue: 1080}, Events: events(1),
	}
	for _, tt := range []struct {
		name   string
		load   float64
		change func(*scenario.Scenario)
	}{
		{"load alone", 300, func(s *scenario.Scenario) { s.Settings = []scenario.Setting{{Use: scenario.UseNone}} }},
		{"tokens too", 300, func(s *scenario.Scenario) {
			s.Settings = []scenario.Setting{{Use: scenario.UseNone}, {Use: scenario.UseStandard}}
		}},
		{"all settings", 300, func(s *scenario.Scenario) {}},
		{"no name", 300, func(s *scenario.Scenario) { s.Name, s.About, s.Events = "", "", nil }},
		{"long texts", 300, func(s *scenario.Scenario) {
			s.Name, s.About = strings.Repeat("x", 200), long+long
			s.Settings = []scenario.Setting{
				{Use: scenario.UseNone, Name: strings.TrimSpace(long)}, {Use: scenario.UseNaive, Name: strings.Repeat("m", 100)},
			}
		}},
		{"many events", 300, func(s *scenario.Scenario) { s.Events = events(50) }},
		{
			"many events, load alone", 300,
			func(s *scenario.Scenario) {
				s.Events, s.Settings = events(50), []scenario.Setting{{Use: scenario.UseNone}}
			},
		},
		{"large numbers", 999_999, func(s *scenario.Scenario) { s.Service.Capacity = 1e6 }},
		{"a long run", 300, func(s *scenario.Scenario) {
			s.Duration, s.Settings = scenario.Duration(4*time.Hour), []scenario.Setting{{Use: scenario.UseAdaptive}}
		}},
		{"a short run", 300, func(s *scenario.Scenario) { s.Duration = seconds(1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			tt.change(&s)
			p := newPicture(made(s, tt.load))
			var c canvas.Canvas
			area := vg.Rectangle{Max: vg.Point{X: p.width, Y: p.height}}
			p.draw(draw.Canvas{Canvas: &c, Rectangle: area})
			checkLabels(t, labels(&c), area)
		})
	}
}
