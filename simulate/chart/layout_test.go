package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"example.com/awsretry/simulate/scenario"
)

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

// Legends of any size of text.
func TestLegendLayout(t *testing.T) {
	for _, size := range []float64{9, 24} {
		for _, width := range []vg.Length{250, 1000} {
			t.Run(fmt.Sprintf("%v pt in %v", size, width), func(t *testing.T) {
				l := newLegend(textStyle(inkText, size, false), true, true)
				area := vg.Rectangle{Max: vg.Point{X: width, Y: l.height(width)}}
				canvas := vgsvg.New(width, l.height(width))
				l.draw(draw.New(canvas))
				all := parsed(t, canvas).labels
				if len(all) != len(l.keys) {
					t.Errorf("%d keys, want %d", len(all), len(l.keys))
				}
				checkLabels(t, all, area)
			})
		}
	}
}

// Names that a file may have, and some that only a program can set.
var hostileNames = map[string]string{
	"long":               strings.Repeat("supercalifragilistic", 10),
	"emoji":              strings.Repeat("\U0001f680\U0001f468\u200d\U0001f469\u200d\U0001f467 ", 12),
	"control characters": "a\x00b\x1b[31mc\nd\te\x7f",
	"stacked marks":      "e" + strings.Repeat("\u0301", 100),
	"markup":             `<script>alert(1)</script><style>*{fill:red}</style>"'&amp;]]>` + "<!--",
	"blank":              "  ",
}

// Whatever is drawn, no text touches another one or is cut off.
func TestLayout(t *testing.T) {
	type picture struct {
		name   string
		load   float64
		change func(*scenario.Scenario)
	}
	uses := func(all ...string) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) {
			s.Settings = nil
			for _, use := range all {
				s.Settings = append(s.Settings, scenario.Setting{Use: use})
			}
		}
	}
	lasts := func(d time.Duration) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Duration, s.Events = scenario.Duration(d), nil }
	}
	capacity := func(c float64) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Service.Capacity = c }
	}
	add := func(e scenario.Event) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Events = append(s.Events, e) }
	}
	all := []picture{
		{"tokens too", 300, uses(scenario.UseNone, scenario.UseStandard)},
		{"large numbers", 999_999, capacity(1e6)},
		{"very small numbers", 1e-9, capacity(0.001)},
		{"a short run", 300, lasts(time.Second)},
		{"ten minutes", 300, lasts(10 * time.Minute)},
		{"a day", 300, lasts(24 * time.Hour)},
		{"a joining fleet", 300,
			add(scenario.Event{Kind: scenario.Join, From: seconds(10), To: seconds(60), Clients: 50})},
		{"a herd at the end", 300,
			add(scenario.Event{Kind: scenario.Herd, From: seconds(59.99), To: seconds(60), Calls: 10})},
	}
	for _, events := range []int{0, 50} {
		all = append(all, picture{fmt.Sprint("8 settings and events: ", events), 300,
			func(s *scenario.Scenario) { *s = busy(8, events) }})
	}
	for kind, name := range hostileNames {
		all = append(all, picture{kind, 300, func(s *scenario.Scenario) {
			s.Name, s.About = name, name+" "+name
			s.Settings[0].Name, s.Settings[1].Name = name, name
		}})
	}
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			s := busy(2, 1)
			tt.change(&s)
			p := newPicture(made(s, tt.load))
			drawn := drawnSVG(t, p)
			area := vg.Rectangle{Max: vg.Point{X: p.width, Y: p.height}}
			checkLabels(t, drawn.labels, area)
			for element := range drawn.elements {
				if !slices.Contains([]string{"svg", "g", "path", "text", "style", "title", "desc"}, element) {
					t.Errorf("the picture has an element %s", element)
				}
			}
			if n := drawn.elements["style"]; n != 1 {
				t.Errorf("%d style sheets, want 1", n)
			}
		})
	}
}

// busy returns a scenario with so many settings and events.
func busy(settings, events int) scenario.Scenario {
	s := scenario.Scenario{
		Name: "busy", About: "Much happens.", Duration: seconds(60),
		Clients: scenario.Clients{Count: 100, Rate: 300}, Service: scenario.Service{Capacity: 360, Queue: 1080},
	}
	uses := []string{
		scenario.UseAdaptive, scenario.UseStandard, scenario.UseNone, scenario.UseNaive,
		scenario.UseLegacy, scenario.UseRevision2026, scenario.UseAdaptive, scenario.UseStandard,
	}
	for i := range settings {
		s.Settings = append(s.Settings, scenario.Setting{Use: uses[i], Name: fmt.Sprintf("setting %d", i)})
	}
	for i := range events {
		from := 60 * float64(i) / float64(events)
		s.Events = append(s.Events, scenario.Event{
			Kind: scenario.Herd, From: seconds(from), To: seconds(min(from+2, 60)), Calls: 1000,
		})
	}
	return s
}
