//go:build go1.26

package httpfake

// EmptyPools does nothing: it is for Go 1.25.
func EmptyPools() {}
