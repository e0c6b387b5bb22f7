package limitheaders

import "cmp"

// structured adds the limits in a RateLimit header, and completes them from
// RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). From draft 8 on, both are
// lists. In draft 7, RateLimit is a dictionary with one limit.
func structured(limits []Limit, current, policy string) []Limit {
	if current == "" {
		return limits
	}
	var policies [MostRead]member
	n := 0
	s := begin(policy)
	for m := (member{}); s.listed(&m); {
		if n < len(policies) {
			policies[n] = m
			n++
		}
	}
	if s.failed {
		n = 0
	}
	read := limits
	s = begin(current)
	for m := (member{}); s.listed(&m); {
		l := Limit{Remaining: m.r.number(), Reset: inSeconds(m.t.number())}
		for i := range policies[:n] {
			if p := &policies[i]; p.applies(&m) {
				l.Quota = max(p.q.number(), 0)
				if w := p.w.number(); l.Reset < 0 && w > 0 {
					l.Reset = inSeconds(w)
				}
				m.qu, m.pk = cmp.Or(m.qu, p.qu), cmp.Or(m.pk, p.pk)
				break
			}
		}
		if !m.isName() || m.qu.text == "concurrent-requests" {
			continue
		}
		l.Name = m.name()
		if m.qu.text != "requests" {
			l.Name = join(l.Name, m.qu.text)
		}
		l.Name = join(l.Name, m.pk.text)
		read = add(read, l)
	}
	if s.failed {
		return add(limits, single(current))
	}
	return read
}

// applies reports whether the policy m applies to a service limit. If only one of
// them has a partition key, the key counts for both.
func (m *member) applies(limit *member) bool {
	return m.isName() && m.name() == limit.name() &&
		(m.pk.text == "" || limit.pk.text == "" || m.pk.text == limit.pk.text)
}

// single parses a dictionary with one limit.
func single(field string) Limit {
	l := Limit{Remaining: -1, Reset: -1}
	s := begin(field)
	for m := (member{}); s.keyed(&m); {
		switch n := m.number(); {
		case n < 0: // not a valid number
		case m.key == "limit":
			l.Quota = n
		case m.key == "remaining":
			l.Remaining = n
		case m.key == "reset":
			l.Reset = inSeconds(n)
		}
	}
	if s.failed {
		return invalid
	}
	return l
}
