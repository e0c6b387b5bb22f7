package output

import (
	"math"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	columns := []Column[float64]{
		{"load", func(n float64) float64 { return n }, Number("%.2f×")},
		{"found", func(n float64) float64 { return n - 4 }, Unless("never", "%.0f s")},
	}
	var out strings.Builder
	Table(&out, []any{"library"}, columns, []Row{
		{[]any{"a"}, [][]float64{Figures(columns, 1.), Figures(columns, 2.), Figures(columns, 9.)}},
		{[]any{"longer than"}, [][]float64{{math.NaN(), 4}}},
	}, Median)
	const want = `| library     |  load | found |
| ----------- | -----:| -----:|
| a           | 2.00× | never |
| longer than |     – |   4 s |

`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
