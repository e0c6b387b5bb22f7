package announced

import "strings"

// A Route is what requests have in common that take of the same limits, as far as
// their URLs show: the method, the number of segments of the path, the first and
// the last of them. The zero Route is that of every request.
type Route struct{ exact, area uint64 }

// RouteOf returns the route of a request. A last segment with a digit is an ID,
// which is left out.
func RouteOf(method, path string) Route {
	path = strings.Trim(path, "/")
	first, _, _ := strings.Cut(path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	if strings.ContainsAny(last, "0123456789") {
		last = "#"
	}
	area := hash(hash(offset, method), first)
	return Route{hash(area, last) + uint64(strings.Count(path, "/")), area}
}

const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

// hash is FNV-1a, continued.
func hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return (h ^ '/') * prime
}

// A Set is a set of the limits of a Ledger.
type Set = uint8

// maxRoutes is how many routes and areas are kept.
const maxRoutes = 512

// routes are the limits that were announced to requests of each route, and those
// that all requests of an area, and all requests, have in common.
type routes struct {
	limits, areas map[uint64]Set
	free          Set  // which are not in common
	mixed         bool // not all routes have the same
}

// of returns the limits that a request of that route takes of, as far as it is
// known: those that were announced to its route, else those of its area, else
// those of all requests.
func (s *routes) of(r Route) Set {
	if s.mixed {
		if limits, ok := s.limits[r.exact]; ok {
			return limits
		}
		if limits, ok := s.areas[r.area]; ok {
			return limits
		}
	}
	return ^s.free
}

// note notes that a response to a request of that route announced these of all
// limits.
func (s *routes) note(r Route, limits, all Set) {
	old, ok := s.limits[r.exact]
	if limits == 0 || ok && old == limits {
		return
	}
	if s.limits == nil {
		s.limits, s.areas = make(map[uint64]Set), make(map[uint64]Set)
	}
	s.free |= all &^ limits
	s.mixed = s.mixed || s.free != 0
	if ok || len(s.limits) < maxRoutes {
		s.limits[r.exact] = old | limits
	}
	if common, ok := s.areas[r.area]; ok {
		s.areas[r.area] = common & limits
	} else if len(s.areas) < maxRoutes {
		s.areas[r.area] = limits
	}
}

// add adds a limit, which no response announced so far.
func (s *routes) add(limit Set) {
	if len(s.limits) > 0 {
		s.free |= limit
		s.mixed = true
	}
}

// drop removes limits that are not kept any more.
func (s *routes) drop(limits Set) {
	s.free &^= limits
	for _, sets := range []map[uint64]Set{s.limits, s.areas} {
		for key := range sets {
			if sets[key] &^= limits; sets[key] == 0 {
				delete(sets, key)
			}
		}
	}
}
