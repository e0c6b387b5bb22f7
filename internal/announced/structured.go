package announced

import (
	"slices"
	"strings"
)

// structured adds the limits of a RateLimit header, with what RateLimit-Policy
// says of them (draft-ietf-httpapi-ratelimit-headers). From draft 8 on the
// header is a list of policies; in draft 7 it is a dictionary of one.
func structured(limits []Limit, current, policy []string) []Limit {
	if len(current) == 0 {
		return limits
	}
	field := strings.Join(current, ", ")
	read := limits
	ok := parseList(field, func(m member) {
		l := Limit{Name: join(m.name(), m.text("pk")), Remaining: m.number("r"), Reset: inSeconds(m.number("t"))}
		if !m.isName() || l.Remaining < 0 {
			return
		}
		if i := slices.IndexFunc(read, func(o Limit) bool { return o.Name == l.Name }); i < 0 && len(read) < cap(read) {
			read = append(read, l)
		} else if i >= 0 && l.Remaining < read[i].Remaining {
			read[i] = l
		}
	})
	if !ok {
		return add(limits, single(field))
	}
	if len(policy) > 0 {
		withPolicies(read, strings.Join(policy, ", "))
	}
	return slices.DeleteFunc(read, func(l Limit) bool { return !l.valid() })
}

// single returns the limit of a dictionary.
func single(field string) Limit {
	l := Limit{Remaining: -1, Reset: -1}
	ok := parseDictionary(field, func(m member) {
		switch n := m.item.number(); {
		case n < 0: // nothing that makes sense
		case m.key == "limit":
			l.Quota = n
		case m.key == "remaining":
			l.Remaining = n
		case m.key == "reset":
			l.Reset = inSeconds(n)
		}
	})
	if !ok {
		return invalid
	}
	return l
}

// withPolicies sets what the policies of the limits say.
func withPolicies(limits []Limit, field string) {
	if !parseList(field, func(member) {}) {
		return
	}
	parseList(field, func(m member) {
		name, full := m.name(), join(m.name(), m.text("pk"))
		i := slices.IndexFunc(limits, func(l Limit) bool { return l.Name == name || l.Name == full })
		if !m.isName() || i < 0 {
			return
		}
		l := &limits[i]
		l.Quota = max(m.number("q"), 0)
		if w := m.number("w"); l.Reset < 0 && w > 0 {
			l.Reset = inSeconds(w)
		}
	})
}
