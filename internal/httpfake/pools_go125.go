//go:build !go1.26

package httpfake

import "runtime"

// emptyPools empties the sync.Pools. The HTTP/2 server of Go 1.25 keeps channels
// in one, and a channel of another test's synctest bubble ends the process.
func emptyPools() {
	runtime.GC()
	runtime.GC() // what the first one has left for a while
}
