package limitheaders

import "cmp"

// structured adds the limits in a RateLimit header, and completes them from
// RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). From draft 8 on, both are
// lists. Before, RateLimit is a dictionary with one limit. kind begins their names.
func structured(limits []Limit, kind, current, policy string) []Limit {
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
		for i := range policies[:n] {
			if p := &policies[i]; p.applies(&m) {
				m.q, m.w = cmp.Or(m.q, p.q), cmp.Or(m.w, p.w)
				m.qu, m.pk = cmp.Or(m.qu, p.qu), cmp.Or(m.pk, p.pk)
				break
			}
		}
		if !m.isName() || m.qu.text == "concurrent-requests" {
			continue
		}
		name := join(kind, m.name())
		if m.qu.text != "requests" {
			name = join(name, m.qu.text)
		}
		read = add(read, m.limit(join(name, m.pk.text)))
	}
	if s.failed {
		return dictionary(limits, kind, current)
	}
	return read
}

// applies reports whether the policy m applies to a service limit. If only one of
// them has a partition key, the key counts for both.
func (m *member) applies(limit *member) bool {
	return m.isName() && m.name() == limit.name() &&
		(m.pk.text == "" || limit.pk.text == "" || m.pk.text == limit.pk.text)
}

// dictionary adds the limits in a dictionary: one in all of its members, or one in
// each that is a name with parameters, as Auth0 sends them.
func dictionary(limits []Limit, kind, field string) []Limit {
	read, all := limits, member{}
	s := begin(field)
	for m := (member{}); s.keyed(&m); {
		if m.isName() {
			read = add(read, m.limit(join(kind, m.name())))
			continue
		}
		all.set(m.key, m.item)
		all.r, all.q, all.t = cmp.Or(all.r, m.r), cmp.Or(all.q, m.q), cmp.Or(all.t, m.t)
	}
	if s.failed {
		return limits
	}
	return add(read, all.limit(kind))
}

// limit returns the limit in the parameters of a member.
func (m *member) limit(name string) Limit {
	l := Limit{Name: name, Quota: max(m.q.number(), 0), Remaining: m.r.number(), Reset: inSeconds(m.t.number())}
	if w := inSeconds(m.w.number()); w > 0 && (l.Reset < 0 || l.Reset%inSeconds(60) == 0 && l.Reset > w && l.Reset-w < inSeconds(60)) {
		l.Reset = w // it is not announced, or rounded up to whole minutes
	}
	return l
}

// isDictionary reports whether a value begins with a key.
func isDictionary(value string) bool {
	s := begin(value)
	s.key()
	return s.next("=")
}
