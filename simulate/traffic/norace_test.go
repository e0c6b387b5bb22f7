//go:build !race

package traffic

const raceDetector = false
