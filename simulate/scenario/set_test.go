package scenario

import (
	"strings"
	"testing"
	"time"
)

// A line of the file can be changed, added and omitted, and errors use the words of
// the file.
func TestSet(t *testing.T) {
	for _, tt := range []struct{ path, value, has, fault string }{
		{"service.capacity", "200", "capacity: 200", ""},
		{"clients.timeout", "45s", "timeout: 45s", ""},
		{"events[0].from", "30s", "from: 30s", ""},
		{"events[0]", "", "", ""},
		{"settings", "[none, standard+share]", "share: true", ""},
		{"settings[1]", "adaptive=scaled", "pacing: scaled", ""},
		{"service.throttle.rate", "5", "rate: 5", ""},
		{"clients.timeout", "", "", ""},
		{"service.capacity", "-1", "", "service.capacity is -1"},
		{"service.size", "1", "", `unknown field "size"`},
		{"service..size", "1", "", "there is no such line"},
		{"name.size", "1", "", "there is no such line"},
		{"events[7].from", "1s", "", "is not in the list"},
		{"events[x]", "1s", "", "is not in the list"},
		{"duration", "[", "", "the value"},
		{"duration", "90", "", `duration is "90"`},
	} {
		s, err := Ready("outage")
		if err != nil {
			t.Fatal(err)
		}
		changed, err := Set(s, tt.path, tt.value)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) || strings.Contains(err.Error(), "[1:") {
				t.Errorf("%s=%s: %v, want %q", tt.path, tt.value, err, tt.fault)
			}
			continue
		}
		text, _ := Marshal(changed)
		if err != nil || !strings.Contains(string(text), tt.has) {
			t.Errorf("%s=%s: %v\n%s", tt.path, tt.value, err, text)
		}
		if tt.value == "" && tt.path == "clients.timeout" && changed.Clients.Timeout != 0 {
			t.Error("the timeout is still there")
		}
	}
}

// OverTime is repeated in a longer run.
func TestWithDuration(t *testing.T) {
	s := Scenario{Duration: Duration(3 * time.Second), OverTime: &OverTime{
		Every: Duration(time.Second), Rate: []float64{1, 2, 3},
	}}
	for seconds, want := range map[int]int{2: 2, 3: 3, 5: 5} {
		got := s.WithDuration(Duration(seconds) * Duration(time.Second))
		if len(got.OverTime.Rate) != want || got.OverTime.Rate[want-1] != float64((want-1)%3+1) {
			t.Errorf("%d s: %v", seconds, got.OverTime.Rate)
		}
	}
	if len(s.OverTime.Rate) != 3 {
		t.Error("the scenario itself has changed")
	}
}
