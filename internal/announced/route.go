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
type Set = uint64

const (
	// maxRoutes limits how many routes, and how many areas, are kept.
	maxRoutes = 512

	// enoughResponses is how many responses of a route in a row must announce a
	// limit that others did not.
	enoughResponses = 100
)

// routes has the limits of each route, and what the routes of an area have in common.
// An area is the routes with the same method and first segment, or everywhere.
type routes struct {
	limits  map[uint64]routeLimits
	areas   map[uint64]area
	changes int // how often the result of of may have changed
}

const everywhere = 0

type area struct {
	common Set // the limits that all of its routes announced
	routes int
}

// routeLimits are the limits of a route. Responses may announce the limit of
// something else that the URL does not show, such as an operation or a user. So
// a limit applies to a route if all of its last responses announced it.
type routeLimits struct {
	apply     Set
	announced Set // by any response
	lately    Set // by all of the last responses
	responses int // how many those are
}

// of returns the limits that apply to a route: those that were announced to it or,
// if none were, those that several routes of its area, or everywhere, have in common.
// What only other processes know applies to all routes.
func (s *routes) of(r Route) Set {
	if limits, ok := s.limits[r.exact]; ok && limits.announced != 0 {
		return limits.apply
	}
	for _, key := range []uint64{r.area, everywhere} {
		if a := s.areas[key]; a.routes > 1 {
			return a.common
		}
	}
	if len(s.limits) == 0 {
		return ^Set(0)
	}
	return 0
}

// known returns the limits that responses to a route announced.
func (s *routes) known(r Route) Set { return s.limits[r.exact].announced }

// full reports whether the limits of another route cannot be kept.
func (s *routes) full() bool { return len(s.limits) >= maxRoutes }

// count returns how many routes announced a limit.
func (s *routes) count(limit Set) (n int) {
	for _, r := range s.limits {
		if r.announced&limit != 0 {
			n++
		}
	}
	return n
}

// replace makes another limit one of a route's.
func (s *routes) replace(r Route, old, limit Set) {
	limits, ok := s.limits[r.exact]
	if !ok {
		return
	}
	for _, set := range []*Set{&limits.apply, &limits.announced, &limits.lately} {
		if *set&old != 0 {
			*set = *set&^old | limit
		}
	}
	s.limits[r.exact] = limits
	s.changes++
}

// note records which limits a response to a route announced.
func (s *routes) note(r Route, limits Set) {
	old, ok := s.limits[r.exact]
	if limits == 0 || ok && old.apply == limits && old.announced == limits && old.lately == limits {
		return
	}
	if s.limits == nil {
		s.limits, s.areas = make(map[uint64]routeLimits), make(map[uint64]area)
	}
	switch {
	case !ok && len(s.limits) < maxRoutes, ok && old.announced == 0: // or they were dropped
		s.limits[r.exact] = routeLimits{limits, limits, limits, 1}
		s.changes++
	case ok:
		apply := old.apply
		old.apply &= limits
		old.announced |= limits
		old.lately &= limits
		if old.responses++; old.responses >= enoughResponses {
			old.apply, old.lately, old.responses = old.lately, limits, 0
		}
		if s.limits[r.exact] = old; old.apply != apply {
			s.changes++
		}
	}
	for _, key := range []uint64{r.area, everywhere} {
		a, known := s.areas[key]
		if !known && len(s.areas) > maxRoutes {
			continue
		}
		was := a
		if !known {
			a.common = limits
		}
		if a.common &= limits; !ok {
			a.routes++
		}
		if s.areas[key] = a; a != was {
			s.changes++
		}
	}
}

// drop removes limits that are no longer kept.
func (s *routes) drop(limits Set) {
	s.changes++
	for key := range s.limits {
		s.replace(Route{exact: key}, limits, 0)
	}
	for key, a := range s.areas {
		if a.common &^= limits; a.common == 0 {
			delete(s.areas, key)
		} else {
			s.areas[key] = a
		}
	}
}
