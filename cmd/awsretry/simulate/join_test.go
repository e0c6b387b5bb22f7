package simulate

import (
	"bytes"
	"testing"
	"time"

	"example.com/awsretry/cmd/awsretry/simulate/scenario"
)

// Clients that join call from then on, and fairness counts the time that they
// are there.
func TestClientsJoin(t *testing.T) {
	herd := scenario.Event{Kind: scenario.Herd, From: seconds(1), To: seconds(9), Calls: 20}
	for _, tt := range []struct {
		name    string
		clients scenario.Clients
		events  []scenario.Event
	}{
		{"closed loop", scenario.Clients{Count: 4, Callers: 1}, nil},
		{"open loop", scenario.Clients{Count: 4, Rate: 80}, nil},
		{"herd", scenario.Clients{Count: 4}, []scenario.Event{herd}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tiny(scenario.Setting{Use: scenario.UseNone})
			s.Clients = tt.clients
			s.Events = append(tt.events, scenario.Event{Kind: scenario.Join, From: seconds(4), To: seconds(8), Clients: 2})
			first := map[int]time.Duration{}
			observe := func(_ int, c Call) {
				if at, called := first[c.Client]; !called || c.Start < at {
					first[c.Client] = c.Start
				}
			}
			result, err := Run(t.Context(), s, Options{Observe: observe})
			if err != nil {
				t.Fatal(err)
			}
			for client, from := range []time.Duration{0, 0, 4 * time.Second, 6 * time.Second} {
				if at, called := first[client]; !called || at < from || at > from+2*time.Second {
					t.Errorf("client %d calls first at %v, want within two seconds from %v on", client, at, from)
				}
			}
			if got := result.Outcomes[0].Fairness; got < 0.99 {
				t.Errorf("fairness is %v, want 1", got)
			}
		})
	}
}

// The picture of clients that join shows them in place of the tokens.
func TestPictureOfClientsThatJoin(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseAdaptive}, scenario.Setting{Use: scenario.UseFleet})
	s.Clients = scenario.Clients{Count: 4, Callers: 2}
	s.Service.Throttle = &scenario.Throttle{Rate: 10, Burst: 1}
	s.Events = []scenario.Event{{Kind: scenario.Join, From: seconds(4), To: seconds(8), Clients: 2}}
	result := mustRun(t, s)
	members := result.Outcomes[1].Series.Members
	if len(members) != 10 || members[2].Value != 2 || members[9].Value != 4 {
		t.Errorf("the members are %v, want 2 and then 4", members)
	}
	for _, want := range []int{1, 0} {
		if want == 0 {
			result.Scenario.Events = nil
		}
		var svg bytes.Buffer
		if err := result.Draw(&svg, SVG); err != nil {
			t.Fatal(err)
		}
		texts := svgTexts(t, svg.Bytes())
		for text, times := range map[string]int{
			"clients, and throttled attempts (1/s)": want,
			"clients":                               want,
			"clients with a lease":                  want,
			"send rate of all clients":              want,
			"retry tokens (mean of the clients)":    1 - want,
		} {
			if texts[text] != times {
				t.Errorf("%d events: %q is %d times in the picture, want %d",
					len(result.Scenario.Events), text, texts[text], times)
			}
		}
	}
}
