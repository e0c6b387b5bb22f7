package simulate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestTableGolden(t *testing.T) {
	s, err := Ready("throttle")
	if err != nil {
		t.Fatal(err)
	}
	s.Duration, s.Clients.Count, s.Service.Capacity = seconds(60), 10, 200
	s.Events = []Event{
		{Kind: Throttling, From: seconds(10), To: seconds(40), Throttle: &Throttle{Rate: 50}},
		{Kind: Errors, From: seconds(20), To: seconds(25), Share: 0.25},
	}
	s.Settings = append(s.Settings, Setting{Use: UseNaive, Name: "no time for anybody", Pause: seconds(1), MaxAttempts: 100})
	r := mustRun(t, s)
	r.Outcomes = append(r.Outcomes, Outcome{Setting: "nobody called"})
	var got bytes.Buffer
	if err := r.WriteTable(&got, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "table.golden")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
	if err := r.WriteTable(brokenWriter{}, 0); !errors.Is(err, errBrokenWriter) {
		t.Errorf("error %v, want the writer's", err)
	}
}

var errBrokenWriter = errors.New("full")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBrokenWriter }

func TestRecovery(t *testing.T) {
	flat := func(n int, v float64) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = v
		}
		return values
	}
	join := func(parts ...[]float64) (all []float64) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	outage := []Event{{Kind: Outage, From: seconds(10), To: seconds(20)}}
	for _, test := range []struct {
		name   string
		events []Event
		good   []float64
		want   Duration
		how    Recovery
	}{
		{"at once", outage, join(flat(10, 50), flat(10, 0), flat(20, 50)), 0, RecoveredInRun},
		{"after three seconds", outage, join(flat(10, 50), flat(13, 0), flat(17, 50)), seconds(3), RecoveredInRun},
		{"nine tenths are enough", outage, join(flat(10, 50), flat(13, 44), flat(17, 45)), seconds(3), RecoveredInRun},
		{"never", outage, join(flat(10, 50), flat(30, 40)), seconds(20), NotRecovered},
		{"no event", nil, flat(40, 50), 0, NoIncident},
		{"nothing to compare with", []Event{{Kind: Outage, From: seconds(4), To: seconds(20)}}, flat(40, 50), 0, NoIncident},
		{"as much as the service can still serve", []Event{{Kind: CapacityStep, Capacity: 20, From: seconds(10), To: seconds(40)}},
			join(flat(10, 50), flat(12, 10), flat(18, 19)), seconds(12), RecoveredInRun},
		{"throttled to the end", []Event{{Kind: Throttling, Throttle: &Throttle{Rate: 10}, From: seconds(10), To: seconds(40)}},
			join(flat(10, 50), flat(30, 10)), 0, RecoveredInRun},
		{"between two seconds", []Event{{Kind: Herd, From: seconds(10), To: seconds(10.25)}}, join(flat(10, 50), flat(1, 0), flat(29, 50)), ms(750), RecoveredInRun},
	} {
		s := Scenario{Duration: seconds(40), Service: Service{Capacity: 100}, Events: test.events}
		if got, how := recovery(s, test.good); got != test.want || how != test.how {
			t.Errorf("%s: %v %v, want %v %v", test.name, got, how, test.want, test.how)
		}
	}
}

func TestFairnessAndPercentiles(t *testing.T) {
	of := func(callers int, counts ...[2]int64) float64 {
		r := newRecorder(time.Second, len(counts))
		for i, c := range counts {
			r.perClient[i].started.Store(c[0])
			r.perClient[i].good.Store(c[1])
		}
		return jain(Scenario{Clients: Clients{Callers: callers}}, r)
	}
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"all the same", of(1, [2]int64{5, 5}, [2]int64{9, 5}), 1},
		{"one of four has everything", of(1, [2]int64{5, 5}, [2]int64{5, 0}, [2]int64{5, 0}, [2]int64{5, 0}), 0.25},
		{"the same share of other numbers", of(0, [2]int64{10, 5}, [2]int64{2, 1}, [2]int64{0, 0}), 1},
		{"nobody has anything", of(0, [2]int64{5, 0}), 0},
		{"1, 2 and 3", of(1, [2]int64{5, 1}, [2]int64{5, 2}, [2]int64{5, 3}), 36. / 42},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
	hundred := make([]uint32, 100)
	for i := range hundred {
		hundred[i] = uint32(i + 1)
	}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := percentile(hundred, p); got != want*time.Microsecond {
			t.Errorf("percentile %v: %v, want %vµs", p, got, int64(want))
		}
	}
	if percentile(nil, 0.5) != 0 {
		t.Error("a percentile of nothing is not 0")
	}
}

func TestPictures(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings []Setting
		drawn    int // panels with curves
		empty    []string
	}{
		{"load alone", []Setting{{Use: UseNone}, {Use: UseLegacy}}, 2, nil},
		{"tokens too", []Setting{{Use: UseNone}, {Use: UseStandard}}, 3, []string{"no retry token bucket"}},
		{"send rates too", []Setting{{Use: UseNaive}, {Use: UseStandard}, {Use: UseAdaptive}}, 6,
			[]string{"no retry token bucket", "no rate limiter", "no rate limiter"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := restless()[0]
			s.Settings = test.settings
			r := mustRun(t, s)
			var svg, bitmap bytes.Buffer
			if err := r.Draw(&svg, SVG); err != nil {
				t.Fatal(err)
			}
			texts := svgTexts(t, svg.Bytes())
			for _, setting := range test.settings {
				if texts[setting.Label()] != 1 {
					t.Errorf("setting %s stands %d times in the picture", setting.Label(), texts[setting.Label()])
				}
			}
			if got := texts["no retry token bucket"] + texts["no rate limiter"]; got != len(test.empty) {
				t.Errorf("%d empty panels, want %d", got, len(test.empty))
			}
			// Each panel shades each event, and the legend has a sample.
			if got, want := strings.Count(strings.ToUpper(svg.String()), "#F1ECDF"), test.drawn*len(s.Events)+1; got != want {
				t.Errorf("%d shaded events, want %d in %d panels", got, want, test.drawn)
			}
			if texts["virtual time (s)"] == 0 || texts["30"] == 0 || texts["offered load and goodput (1/s)"] != 1 {
				t.Errorf("the axes have no units: %v", texts)
			}

			if err := r.Draw(&bitmap, PNG); err != nil {
				t.Fatal(err)
			}
			image, err := png.Decode(bytes.NewReader(bitmap.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if size := image.Bounds().Size(); size.X < 800 || size.Y < 200*len(test.settings) {
				t.Errorf("picture of %v pixels", size)
			}
			var again bytes.Buffer
			if err := r.Draw(&again, PNG); err != nil || !bytes.Equal(again.Bytes(), bitmap.Bytes()) {
				t.Errorf("drawn again, the picture differs (%v)", err)
			}
			if err := r.Draw(io.Discard, "gif"); err == nil || !strings.Contains(err.Error(), "svg or png") {
				t.Errorf("error %v, want one with the formats", err)
			}
		})
	}
}

// svgTexts parses the picture and counts its texts.
func svgTexts(t *testing.T, text []byte) map[string]int {
	t.Helper()
	texts := map[string]int{}
	decoder := xml.NewDecoder(bytes.NewReader(text))
	inText := false
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts[strings.TrimSpace(string(token))]++
			}
		case xml.EndElement:
			inText = false
		}
	}
}

// Pictures of what is hardly there.
func TestPicturesOfLittle(t *testing.T) {
	silent := tiny(Setting{Use: UseAdaptive})
	silent.Clients = Clients{Count: 1, Rate: 1e-9}
	silent.Events = []Event{{Kind: Outage}}
	long := tiny(Setting{Use: UseNone, Name: strings.Repeat("long ", 20)})
	long.Duration, long.Clients.Think = Duration(24*time.Hour), Duration(time.Hour)
	long.Name, long.About = strings.Repeat("<&>", 60), ""
	for _, s := range []Scenario{silent, long} {
		r := mustRun(t, s)
		var svg bytes.Buffer
		if err := r.Draw(&svg, SVG); err != nil {
			t.Fatal(err)
		}
		svgTexts(t, svg.Bytes())
	}
}
