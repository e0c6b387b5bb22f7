//go:build race

package fleet_test

// The race detector makes processes slow.
func init() { count = 4 }
