package fleet

import (
	"encoding/json"
	"fmt"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/pacer"
)

// longestSaid is the longest text of limits that the store keeps, in bytes.
const longestSaid = 4096

// longestPause is the longest time for which limits from the store stop requests.
const longestPause = time.Hour

// sayLimits returns s as JSON, with times relative to the arrival of the response,
// or "" if the text would be too long.
func sayLimits(s *pacer.Announcement) string {
	if s == nil {
		return ""
	}
	relative := *s
	relative.Sent, relative.Heard = s.Sent-s.Heard, 0
	text, err := json.Marshal(relative)
	if err != nil || len(text) > longestSaid { // a number that is not finite
		return ""
	}
	return string(text)
}

// hear returns the limits that another process sent, or nil if they are not new.
func (m *member) hear(got *protocol.Reply, asked time.Time) *pacer.Announcement {
	if got.Said == "" || got.Said == m.told || got.Said == m.heard {
		return nil
	}
	m.heard = got.Said
	late := time.Since(asked) / 2 // the age of the reply
	said, err := readLimits(got.Said, duration(got.SaidAge)+late)
	if err != nil {
		m.fleet.report(m.share.Partition(), err)
	}
	return said
}

// readLimits parses limits whose request was sent age ago.
func readLimits(text string, age time.Duration) (*pacer.Announcement, error) {
	if len(text) > longestSaid {
		return nil, fmt.Errorf("the store returned limits of %d bytes; they must have at most %d", len(text), longestSaid)
	}
	said := new(pacer.Announcement)
	if err := json.Unmarshal([]byte(text), said); err != nil {
		return nil, fmt.Errorf("the store returned limits that cannot be read: %w", err)
	}
	trip := min(max(said.Sent, 0), age)
	said.Sent, said.Heard = age, age-trip
	var limits []announced.Limit
	for _, l := range said.Limits {
		if !(l.Quota >= 0) || !(l.Remaining >= 0) {
			return nil, fmt.Errorf("the store returned the limit %+.100v; its numbers must not be negative", l)
		}
		if l.Remaining >= 1 || l.Reset <= longestPause {
			limits = append(limits, l)
		}
	}
	said.Limits = limits
	return said, nil
}
