//go:build race

package traffic

// raceDetector says whether the race detector runs, with which a simulation
// takes many times as long.
const raceDetector = true
