//go:build race

package fleet_test

// count is how many processes a fleet has. The race detector makes them slow.
const count = 4
