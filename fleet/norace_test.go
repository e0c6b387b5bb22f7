//go:build !race

package fleet_test

const count = 20
