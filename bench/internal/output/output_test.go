package output

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	Table(&out, 1, []any{"library", "load"}, [][]any{{"a", "1.00×"}, {"longer than", "–"}})
	const want = `| library     |  load |
| ----------- | -----:|
| a           | 1.00× |
| longer than |     – |

`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
