//go:build race

package simulate

// raceDetector reports whether the race detector runs. With it a simulation takes
// five times as long.
const raceDetector = true
