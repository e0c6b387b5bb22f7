package simulate

import (
	"math"
	"testing"
)

func TestRandom(t *testing.T) {
	const n = 100_000
	var sum, squares, normals, normalSquares float64
	for i := range uint64(n) {
		u := unit(random(3, i))
		sum += u
		squares += u * u
		z := normal(random(3, i, 1), random(3, i, 2))
		normals += z
		normalSquares += z * z
	}
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"mean", sum / n, 1. / 2},
		{"mean square", squares / n, 1. / 3},
		{"normal mean", normals / n, 0},
		{"normal variance", normalSquares / n, 1},
	} {
		if math.Abs(tt.got-tt.want) > 0.01 {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if random(1, 2) == random(2, 1) || random(1) == random(1, 0) {
		t.Error("different parts give the same number")
	}
}
