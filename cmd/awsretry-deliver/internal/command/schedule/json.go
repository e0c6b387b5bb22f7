package schedule

import (
	"io"

	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery"
)

func writeJSON(w io.Writer, p *plan) error {
	type pauses struct {
		First   int     `json:"first_retry"`
		Last    int     `json:"last_retry"`
		Phase   string  `json:"phase"`
		Seconds float64 `json:"pause_seconds"` // before each of them
		Total   float64 `json:"total_seconds"` // up to the last of them
	}
	type schedule struct {
		Function delivery.BackoffFunction `json:"backoff_function"`
		Allowed  bool                     `json:"allowed"`
		Total    float64                  `json:"total_seconds"`
		Pauses   []pauses                 `json:"pauses"`
	}
	document := struct {
		Policy    *delivery.Policy `json:"policy"`
		Raw       bool             `json:"raw_delivery_only"`
		Retries   int              `json:"retries"`
		Attempts  int              `json:"attempts"`
		Schedules []schedule       `json:"schedules"`
	}{p.file.Policy, p.file.Raw, p.retries(), p.retries() + 1, nil}
	for i, f := range p.functions {
		s := schedule{Function: f, Allowed: !p.refused[i], Total: p.total(i).Seconds(), Pauses: []pauses{}}
		for line := range p.lines() {
			s.Pauses = append(s.Pauses, pauses{
				line.first, line.last, line.phase, line.pauses[i].Seconds(), line.total(i, line.last).Seconds(),
			})
		}
		document.Schedules = append(document.Schedules, s)
	}
	encoder := term.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}
