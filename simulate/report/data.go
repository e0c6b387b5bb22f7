package report

import (
	"encoding/json"
	"maps"
	"math"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// data has what the script of the page draws. Times are in seconds.
type data struct {
	Duration float64   `json:"duration"`
	Every    int       `json:"every"` // seconds of a point
	Top      top       `json:"top"`   // of the charts' scales
	Whole    top       `json:"whole"` // the same, with peaks that are cut off
	Events   []event   `json:"events"`
	Settings []setting `json:"settings"`
}

// A top has the highest value in the charts of each kind, so that all settings have
// the same scale.
type top map[string]float64

type event struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

type setting struct {
	Name    string   `json:"name"`
	Figures string   `json:"figures"`
	Charts  []chart  `json:"charts"`
	Notes   []string `json:"notes,omitempty"` // for charts that are missing
}

// A chart has curves over the same instants.
type chart struct {
	Kind  string    `json:"kind"`
	Title string    `json:"title"`
	Times []float64 `json:"times"`
	Lines []line    `json:"lines"`
}

// A line is a curve.
type line struct {
	Name   string   `json:"name"`
	Ink    string   `json:"ink"` // the name of a color in report.css
	Width  float64  `json:"width"`
	Dash   []int    `json:"dash,omitempty"`
	Hidden bool     `json:"hidden,omitempty"` // until the reader shows it
	Values []number `json:"values"`
}

// A number is null in JSON if it is not a number.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// The kinds of charts.
const (
	load   = "load"
	tokens = "tokens"
	rates  = "rates"
	crowd  = "clients"
)

func newData(r *simulate.Result) data {
	s := r.Scenario
	d := data{Duration: time.Duration(s.Duration).Seconds(), Every: simulate.SecondsPerPoint(s)}
	for _, e := range s.Events {
		d.Events = append(d.Events, event{time.Duration(e.From).Seconds(), time.Duration(e.To).Seconds()})
	}
	serves := simulate.ServesOverTime(s)
	clients := s.ClientsOverTime()
	for _, o := range r.Outcomes {
		d.Settings = append(d.Settings, newSetting(s, o, serves, clients))
	}
	d.Top, d.Whole = top{}, top{}
	for _, setting := range d.Settings {
		for _, c := range setting.Charts {
			for _, l := range c.Lines {
				for _, v := range l.Values {
					if !math.IsNaN(float64(v)) {
						d.Whole[c.Kind] = max(d.Whole[c.Kind], float64(v))
					}
				}
			}
		}
	}
	maps.Copy(d.Top, d.Whole)
	if most := simulate.Most(serves); most > 0 && d.Whole[load] > 0 { // a peak far above would flatten everything else
		d.Top[load] = min(d.Whole[load], 4*most)
	}
	return d
}

func newSetting(s scenario.Scenario, o simulate.Outcome, serves, clients []scenario.Level) setting {
	made := setting{Name: o.Setting, Figures: o.Figures()}
	every := simulate.SecondsPerPoint(s)
	over := chart{Kind: load, Title: "Offered load and goodput (1/s)"}
	_, over.Times = simulate.Means(o.Series.Attempts, every)
	over.Lines = []line{
		{Name: "the service can serve", Ink: "serves", Width: 1.2, Dash: []int{5, 4}, Values: at(over.Times, serves)},
	}
	for _, l := range []struct {
		line
		values []float64
	}{
		{line{Name: "attempts", Ink: "attempts", Width: 1.2}, o.Series.Attempts},
		{line{Name: "goodput", Ink: "good", Width: 2}, o.Series.Good},
		{line{Name: "calls begun", Ink: "tokens", Width: 1, Hidden: true}, o.Series.Started},
		{line{Name: "calls failed", Ink: "bad", Width: 1, Hidden: true}, o.Series.Bad},
		{line{Name: "throttled", Ink: "rate", Width: 1, Hidden: true}, o.Series.Throttled},
		{line{Name: "other failures", Ink: "faint", Width: 1, Hidden: true}, o.Series.Errors},
		{line{Name: "given up", Ink: "text", Width: 1, Hidden: true}, o.Series.Lost},
	} {
		means, _ := simulate.Means(l.values, every)
		for _, v := range means {
			l.Values = append(l.Values, number(v))
		}
		over.Lines = append(over.Lines, l.line)
	}
	made.Charts = append(made.Charts, over)
	if o.Calls == 0 {
		made.Notes = append(made.Notes, "No call began.")
	}
	if o.Series.Tokens == nil {
		made.Notes = append(made.Notes, "This setting has no retry token bucket.")
	} else {
		made.Charts = append(made.Charts, sampled(tokens, "Retry tokens (mean of the clients)", "tokens", "tokens",
			o.Series.Tokens, false))
	}
	switch rate := sampled(rates, "Send rate (1/s, mean of limited clients)", "send rate", "rate",
		o.Series.SendRate, true); {
	case o.Series.SendRate == nil:
		made.Notes = append(made.Notes, "This setting has no rate limiter.")
	case len(rate.Lines) == 0:
		made.Notes = append(made.Notes, "The rate limiter never limits.")
	default:
		made.Charts = append(made.Charts, rate)
	}
	if len(clients) > 1 {
		there := chart{Kind: crowd, Title: "Clients", Times: over.Times}
		there.Lines = []line{{Name: "clients", Ink: "faint", Width: 1.5, Values: at(over.Times, clients)}}
		if m := o.Series.Members; m != nil {
			there = sampled(crowd, "Clients", "clients with a lease", "tokens", m, false)
			there.Lines = append(there.Lines,
				line{Name: "clients", Ink: "faint", Width: 1.5, Dash: []int{5, 4}, Values: at(there.Times, clients)})
		}
		made.Charts = append(made.Charts, there)
	}
	return made
}

// sampled returns a chart of samples. If limited, it leaves out samples without a
// limited client, and the line if there are no others.
func sampled(kind, title, name, ink string, samples []simulate.Sample, limited bool) chart {
	c := chart{Kind: kind, Title: title}
	l := line{Name: name, Ink: ink, Width: 1.6}
	drawn := false
	for _, s := range samples {
		v := s.Value
		if limited && s.Limited == 0 {
			v = math.NaN()
		} else {
			drawn = true
		}
		c.Times = append(c.Times, time.Duration(s.At).Seconds())
		l.Values = append(l.Values, number(v))
	}
	if drawn {
		c.Lines = []line{l}
	}
	return c
}

// at returns the levels at these instants.
func at(times []float64, levels []scenario.Level) []number {
	values := make([]number, len(times))
	i := 0
	for n, t := range times {
		for i+1 < len(levels) && levels[i+1].From.Seconds() <= t {
			i++
		}
		values[n] = number(levels[i].Value)
	}
	return values
}
