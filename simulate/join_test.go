package simulate

import (
	"slices"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// Clients that join make calls from then on, and fairness counts only the time
// since they joined.
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
			s.Events = append(
				tt.events,
				scenario.Event{Kind: scenario.Join, From: seconds(4), To: seconds(8), Clients: 2},
			)
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

// Clients that join are members of the fleet from then on.
func TestMembersJoin(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseFleet})
	s.Clients = scenario.Clients{Count: 4, Callers: 2}
	s.Service.Throttle = &scenario.Throttle{Rate: 10, Burst: 1}
	s.Events = []scenario.Event{{Kind: scenario.Join, From: seconds(4), To: seconds(8), Clients: 2}}
	result := mustRun(t, s)
	if m := result.Outcomes[0].Series.Members; len(m) != 10 || m[2].Value != 2 || m[9].Value != 4 {
		t.Errorf("the members are %v, want 2 and then 4", m)
	}
	want := []scenario.Level{{From: 0, Value: 2}, {From: 4 * time.Second, Value: 3}, {From: 6 * time.Second, Value: 4}}
	if got := result.Scenario.ClientsOverTime(); !slices.Equal(got, want) {
		t.Errorf("the clients are %v, want %v", got, want)
	}
}
