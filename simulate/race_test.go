//go:build race

package simulate

// raceDetector says whether the race detector runs, with which a simulation
// takes five times as long.
const raceDetector = true
