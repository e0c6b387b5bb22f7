package announced

import "strings"

// A Route identifies requests to which the same limits apply, as far as their URLs
// show: those with the same method, number of path segments, and first and last
// segment. The zero Route does not distinguish requests.
type Route struct{ exact, area uint64 }

// RouteOf returns the route of a request. It ignores a last segment that contains
// a digit, which is probably an ID.
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

// hash adds a text to an FNV-1a hash.
func hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return (h ^ '/') * prime
}

// A Set is a set of the limits of a Ledger.
type Set = uint8

// maxRoutes limits how many routes, and how many areas, are kept.
const maxRoutes = 512

// routes has the limits that were announced to each route, and those that all routes
// in an area, and all routes, have in common. An area is the routes with the same
// method and first segment.
type routes struct {
	limits, areas map[uint64]Set
	free          Set  // the limits that not all routes have
	mixed         bool // not all routes have the same limits
	changes       int  // how often the result of of may have changed
}

// of returns the limits that apply to a route: those that were announced to it or,
// if none were, those of its area or, failing that, those of all routes.
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

// note records which of all limits a response to a route announced.
func (s *routes) note(r Route, limits, all Set) {
	old, ok := s.limits[r.exact]
	if limits == 0 || ok && old == limits {
		return
	}
	if s.limits == nil {
		s.limits, s.areas = make(map[uint64]Set), make(map[uint64]Set)
	}
	s.release(all &^ limits)
	s.set(s.limits, r.exact, old|limits)
	if common, ok := s.areas[r.area]; ok {
		limits &= common
	}
	s.set(s.areas, r.area, limits)
}

// set changes an element of limits or areas, or adds it if there is room.
func (s *routes) set(sets map[uint64]Set, key uint64, limits Set) {
	if old, ok := sets[key]; ok && old != limits || !ok && len(sets) < maxRoutes {
		sets[key] = limits
		s.changes++
	}
}

// release makes limits apply only to the routes that announced them.
func (s *routes) release(limits Set) {
	if limits&^s.free != 0 {
		s.free |= limits
		s.mixed = true
		s.changes++
	}
}

// add adds a limit that no response has announced yet.
func (s *routes) add(limit Set) {
	if len(s.limits) > 0 {
		s.release(limit)
	}
}

// drop removes limits that are no longer kept.
func (s *routes) drop(limits Set) {
	s.free &^= limits
	s.changes++
	for _, sets := range []map[uint64]Set{s.limits, s.areas} {
		for key := range sets {
			if sets[key] &^= limits; sets[key] == 0 {
				delete(sets, key)
			}
		}
	}
}
