package simulate

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

func TestSameSeedSameResult(t *testing.T) {
	encode := func(t *testing.T, s scenario.Scenario, processors int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		text, err := json.Marshal(mustRun(t, s).Outcomes)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, s := range restless() {
		t.Run(s.Name, func(t *testing.T) {
			want := encode(t, s, 1)
			for _, processors := range []int{2, 8} {
				if got := encode(t, s, processors); got != want {
					t.Fatalf("with GOMAXPROCS %d the result differs:\n%s", processors, cmp.Diff(want, got))
				}
			}
			s.Settings = s.Settings[:1]
			same := encode(t, s, 2)
			s.Seed++
			if encode(t, s, 2) == same {
				t.Error("another seed gives the same result")
			}
		})
	}
}
