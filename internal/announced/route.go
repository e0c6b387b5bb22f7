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
type Set uint8

// maxRoutes is how many routes are known at most.
const maxRoutes = 256

// routes are the limits that were announced to requests of each route.
type routes struct {
	limits map[uint64]Set
	last   Set
	mixed  bool // not all have the same
}

// of returns the limits that a request of that route takes of. What nothing is
// known of may take of all.
func (s *routes) of(r Route) Set {
	if s.mixed {
		if limits := s.limits[r.exact]; limits != 0 {
			return limits
		}
		if limits := s.limits[r.area]; limits != 0 {
			return limits
		}
	}
	return ^Set(0)
}

// note notes that a response to a request of that route announced these limits.
func (s *routes) note(r Route, limits Set) {
	if limits == 0 || s.limits[r.exact] == limits {
		return
	}
	if s.limits == nil || len(s.limits) >= maxRoutes {
		s.limits = make(map[uint64]Set) // it is soon known again
	}
	s.mixed = s.mixed || s.last != 0 && s.last != limits
	s.last = limits
	s.limits[r.exact] |= limits
	s.limits[r.area] |= limits
}

// drop removes limits that are not kept any more.
func (s *routes) drop(limits Set) {
	s.last &^= limits
	for key := range s.limits {
		if s.limits[key] &^= limits; s.limits[key] == 0 {
			delete(s.limits, key)
		}
	}
}
