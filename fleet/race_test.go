//go:build race

package fleet_test

// raceEnabled says whether the race detector runs.
const raceEnabled = true
