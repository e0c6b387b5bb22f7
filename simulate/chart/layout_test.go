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
	for _, size := range []float64{6, 9, 12, 18, 24} {
		for _, width := range []vg.Length{250, 420, 500, 1000} {
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

func TestPictureLayout(t *testing.T) {
	long := strings.Repeat("<long> ", 14)
	events := func(n int) (all []scenario.Event) {
		for i := range n {
			from := float64(i)
			all = append(all, scenario.Event{
				Kind: scenario.Herd, From: seconds(from), To: seconds(from + 0.5), Calls: 1000,
			})
		}
		return all
	}
	base := scenario.Scenario{
		Name: "throttle", About: "For two minutes the service allows less.", Duration: seconds(60),
		Clients: scenario.Clients{Count: 100, Rate: 300},
		Service: scenario.Service{Capacity: 360, Queue: 1080}, Events: events(1),
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
		{"a joining fleet", 300, func(s *scenario.Scenario) {
			s.Events = append(s.Events, scenario.Event{
				Kind: scenario.Join, From: seconds(10), To: seconds(60), Clients: 50,
			})
		}},
		{"a herd at the end", 300, func(s *scenario.Scenario) {
			s.Events = []scenario.Event{{Kind: scenario.Herd, From: seconds(59.99), To: seconds(60), Calls: 10}}
		}},
		{"very large numbers", 1e6, func(s *scenario.Scenario) { s.Service.Capacity = 1e6 }},
		{"very small numbers", 1e-9, func(s *scenario.Scenario) { s.Service.Capacity = 0.001 }},
		{"a day", 300, func(s *scenario.Scenario) { s.Duration = scenario.Duration(24 * time.Hour) }},
		{"a short run", 300, func(s *scenario.Scenario) { s.Duration = seconds(1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			tt.change(&s)
			p := newPicture(made(s, tt.load))
			drawn := drawnSVG(t, p)
			area := vg.Rectangle{Max: vg.Point{X: p.width, Y: p.height}}
			checkLabels(t, drawn.labels, area)
			drawn.checkPaths(t, p, area)
		})
	}
}

// Names that a file may have, and some that only a program can set.
var hostileNames = map[string]string{
	"long": strings.Repeat("supercalifragilistic", 10),
	"wide": strings.Repeat("W", 100),
	"right to left": "\u0625\u0639\u0627\u062f\u0629 \u05e0\u05d9\u05e1\u05d9\u05d5\u05df " + strings.Repeat(
		"\u05d0",
		80,
	),
	"turned around":      "abc\u202edef\u2066ghi",
	"emoji":              strings.Repeat("\U0001f680\U0001f468\u200d\U0001f469\u200d\U0001f467 ", 12),
	"Chinese":            strings.Repeat("\u91cd\u8a66", 60),
	"control characters": "a\x00b\x1b[31mc\nd\te\x7f",
	"not UTF-8":          "a\xff\xfeb\xc3",
	"stacked marks":      "e" + strings.Repeat("\u0301", 100),
	"markup":             `<script>alert(1)</script><style>*{fill:red}</style>"'&amp;]]>` + "<!--",
	"CSS":                `style="font-family:Liberation Sans;fill:#222222"`,
	"blank":              "  ",
}

func TestHostileNames(t *testing.T) {
	for kind, name := range hostileNames {
		t.Run(kind, func(t *testing.T) {
			s := busy(2, 3)
			s.Name, s.About = name, name+" "+name
			s.Settings[0].Name, s.Settings[1].Name = name, name
			p := newPicture(made(s, 300))
			drawn := drawnSVG(t, p)
			area := vg.Rectangle{Max: vg.Point{X: p.width, Y: p.height}}
			checkLabels(t, drawn.labels, area)
			drawn.checkPaths(t, p, area)
			for element := range drawn.elements {
				if !slices.Contains([]string{"svg", "g", "path", "text", "style"}, element) {
					t.Errorf("the picture has an element %s", element)
				}
			}
			if n := drawn.elements["style"]; n != 1 {
				t.Errorf("%d style sheets, want 1", n)
			}
		})
	}
}

// Every number of settings with every number of events.
func TestPicturesOfEverySize(t *testing.T) {
	for _, settings := range []int{1, 8} {
		for _, events := range []int{0, 3, 50} {
			t.Run(fmt.Sprintf("%d settings, %d events", settings, events), func(t *testing.T) {
				s := busy(settings, events)
				p := newPicture(made(s, 300))
				drawn := drawnSVG(t, p)
				area := vg.Rectangle{Max: vg.Point{X: p.width, Y: p.height}}
				checkLabels(t, drawn.labels, area)
				drawn.checkPaths(t, p, area)
				shaded := 0
				for _, path := range drawn.paths {
					if path.fill == "#F1ECDF" {
						shaded++
					}
				}
				panels := 0
				for _, o := range p.Outcomes {
					for _, col := range p.columns {
						if slices.ContainsFunc(col.lines(o), line.visible) {
							panels++
						}
					}
				}
				if want := events*panels + min(events, 1); shaded != want {
					t.Errorf("%d shaded events, want %d in %d panels and one in the legend", shaded, want, panels)
				}
			})
		}
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
