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
	// maxRoutes limits how many routes are kept.
	maxRoutes = 512

	// enoughResponses is how many responses of a route in a row must announce a
	// limit that others did not.
	enoughResponses = 100
)

// routes has the limits of each route.
type routes struct {
	known   map[uint64]known
	common  map[uint64]Set // the limits of all routes of an area, or everywhere; made when needed
	changes int            // how often the result of of may have changed
}

// An area is the routes with the same method and first segment, or everywhere.
const everywhere = 0

// known is what is known of a route. Responses may announce the limit of something
// else that the URL does not show, such as an operation or a user. So a limit applies
// to a route if all of its last responses announced it.
type known struct {
	area      uint64
	limits    Set // that responses announced
	apply     Set
	lately    Set // that all of the last responses announced
	responses int // how many those are
}

// of returns the limits that apply to a route: those that were announced to it or,
// if none were, those that several routes of its area, or everywhere, have in common.
// What only other processes know applies to all routes.
func (s *routes) of(r Route) Set {
	if k, ok := s.known[r.exact]; ok {
		return k.apply
	}
	if len(s.known) == 0 {
		return ^Set(0)
	}
	common, ok := s.common[r.area]
	if !ok {
		if common, ok = s.shared(r.area); !ok {
			common, _ = s.shared(everywhere)
		}
		if s.common == nil || len(s.common) >= maxRoutes {
			s.common = make(map[uint64]Set)
		}
		s.common[r.area] = common
	}
	return common
}

// shared returns what the routes of an area have in common. ok is false if they are
// not several.
func (s *routes) shared(area uint64) (common Set, ok bool) {
	common, n := ^Set(0), 0
	for _, k := range s.known {
		if area == everywhere || k.area == area {
			common &= k.apply
			n++
		}
	}
	if n < 2 {
		return 0, false
	}
	return common, true
}

// full reports whether no other route can be kept.
func (s *routes) full() bool { return len(s.known) == maxRoutes }

// note records which limits a response to a route announced.
func (s *routes) note(r Route, said Set) {
	k, ok := s.known[r.exact]
	switch {
	case said == 0 || !ok && s.full():
		return
	case !ok:
		if k = (known{r.area, said, said, said, 0}); s.known == nil {
			s.known = make(map[uint64]known)
		}
	}
	apply := k.apply
	k.limits, k.apply, k.lately = k.limits|said, k.apply&said, k.lately&said
	if k.responses++; k.responses >= enoughResponses {
		k.apply, k.lately, k.responses = k.lately, said, 0
	}
	if s.known[r.exact] = k; !ok || k.apply != apply {
		s.changed()
	}
}

// replace replaces limits of a route, if it is kept, or removes them.
func (s *routes) replace(r Route, old, limit Set) {
	if k, ok := s.known[r.exact]; ok {
		for _, set := range []*Set{&k.limits, &k.apply, &k.lately} {
			if *set&old != 0 {
				*set = *set&^old | limit
			}
		}
		if s.known[r.exact] = k; k.limits == 0 {
			delete(s.known, r.exact)
		}
		s.changed()
	}
}

func (s *routes) changed() {
	s.changes++
	clear(s.common)
}

// drop removes limits that are no longer kept.
func (s *routes) drop(limits Set) {
	s.changed()
	for key := range s.known {
		s.replace(Route{exact: key}, limits, 0)
	}
}
