package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/sharing"
)

// A said is what the service announced last of its limits, to any of the
// processes, and how long ago the request was sent.
type said struct {
	text string // as sayLimits writes it; "" means nothing
	age  time.Duration
}

// longestSaid is the longest text that the store keeps.
const longestSaid = 4096

// longestPause is for how long a store can stop the requests at most.
const longestPause = time.Hour

// announcement is the JSON of a said.
type announcement struct {
	Trip      int64 `json:"trip_ms"` // from sending the request to the response
	Throttled bool  `json:"throttled,omitempty"`
	Limits    []announcedLimit
}

type announcedLimit struct {
	Name      string  `json:"name,omitempty"`
	Quota     float64 `json:"quota,omitempty"`
	Remaining float64 `json:"remaining"`
	Reset     int64   `json:"reset_ms"` // negative means not said
	Refills   bool    `json:"refills,omitempty"`
}

// sayLimits returns s as a text, or nothing if that would be too long.
func sayLimits(s *sharing.Said) said {
	if s == nil {
		return said{}
	}
	a := announcement{Trip: (s.Sent - s.Heard).Milliseconds(), Throttled: s.Throttled}
	for _, l := range s.Limits {
		reset := l.Reset.Milliseconds()
		if l.Reset < 0 {
			reset = -1
		}
		a.Limits = append(a.Limits, announcedLimit{l.Name, l.Quota, l.Remaining, reset, l.Refills})
	}
	text, err := json.Marshal(a)
	if err != nil || len(text) > longestSaid { // a number that is not finite
		return said{}
	}
	return said{string(text), s.Sent}
}

// limits returns what s says, or nil if it says nothing.
func (s said) limits() (*sharing.Said, error) {
	if s.text == "" {
		return nil, nil
	}
	var a announcement
	if len(s.text) > longestSaid {
		return nil, fmt.Errorf("the store returned limits of %d bytes; they must have at most %d", len(s.text), longestSaid)
	}
	if err := json.Unmarshal([]byte(s.text), &a); err != nil {
		return nil, fmt.Errorf("the store returned limits that cannot be read: %w", err)
	}
	trip := time.Duration(min(max(a.Trip, 0), s.age.Milliseconds())) * time.Millisecond
	heard := &sharing.Said{Throttled: a.Throttled, Sent: s.age, Heard: s.age - trip}
	for _, l := range a.Limits {
		if !(l.Quota >= 0) || !(l.Remaining >= 0) || l.Reset > math.MaxInt64/int64(time.Millisecond) {
			return nil, fmt.Errorf("the store returned the limit %+.100v; its numbers must not be negative", l)
		}
		reset := time.Duration(max(l.Reset, -1)) * time.Millisecond
		if l.Remaining < 1 && reset > longestPause {
			continue
		}
		heard.Limits = append(heard.Limits, announced.Limit{
			Name: l.Name, Quota: l.Quota, Remaining: l.Remaining, Reset: reset, Refills: l.Refills,
		})
	}
	return heard, nil
}
