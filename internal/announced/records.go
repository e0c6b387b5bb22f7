package announced

import (
	"cmp"
	"slices"
	"time"
)

// A record is a request that was sent.
type record struct {
	Request
	number  int           // in the order of sending, from 1
	at      time.Duration // the send time, which is unique
	limits  Set           // that apply to it
	said    Set           // that its response announced
	heard   Set           // those of them that its response updated
	probed  Set           // those for which it was a probe
	settled bool
}

// records holds the requests since the oldest one in flight.
type records struct {
	last   int // the number of the newest request
	newest time.Duration
	list   []record
	done   int // the number of settled requests at the beginning of list
}

// add adds a request that is sent at now, and returns its send time.
func (s *records) add(now time.Duration, r record) (sent time.Duration) {
	s.last++
	s.newest = max(now, s.newest+1)
	r.number, r.at = s.last, s.newest
	s.list = append(s.list, r)
	return r.at
}

// search returns the index of the first request that was sent at sent or later.
func (s *records) search(sent time.Duration) (place int, found bool) {
	return slices.BinarySearchFunc(s.list, sent, func(r record, sent time.Duration) int {
		return cmp.Compare(r.at, sent)
	})
}

// find returns the request in flight that was sent at sent, or nil.
func (s *records) find(sent time.Duration) *record {
	if i, ok := s.search(sent); ok && !s.list[i].settled {
		return &s.list[i]
	}
	return nil
}

// latest returns the send time of the last request in flight that was sent at sent or
// before, or sent itself if there is none.
func (s *records) latest(sent time.Duration) time.Duration {
	i, _ := s.search(sent + 1)
	for i--; i >= 0; i-- {
		if !s.list[i].settled {
			return s.list[i].at
		}
	}
	return sent
}

// overdue returns a request that has been in flight for hangTime or exceeds
// maxRecords, or nil.
func (s *records) overdue(now time.Duration) *record {
	if len(s.list) == 0 || now-s.list[s.done].at < hangTime && len(s.list)-s.done < maxRecords {
		return nil
	}
	return &s.list[s.done]
}

// trim drops the settled requests at the beginning of the list.
func (s *records) trim() {
	for s.done < len(s.list) && s.list[s.done].settled {
		s.done++
	}
	if s.done == len(s.list) || s.done > len(s.list)/2 {
		s.list = slices.Delete(s.list, 0, s.done)
		s.done = 0
	}
}
