//go:build !go1.26

package httpfake

import "runtime"

// EmptyPools empties the sync.Pools. The HTTP/2 server of Go 1.25 keeps channels
// in one, and a channel of another test's synctest bubble ends the process. A
// test that starts a server without this package calls EmptyPools before.
func EmptyPools() {
	runtime.GC()
	runtime.GC() // what the first one has left for a while
}
