package fleet_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

var o3seed = flag.Int("o3seed", 0, "")
var o3 = flag.Bool("o3", false, "")

func (w *world) accepted() (n, sent float64) {
	for _, s := range w.sent {
		if s.accepted {
			n++
		}
	}
	return n, float64(len(w.sent))
}

func TestOracle3(t *testing.T) {
	if !*o3 {
		t.Skip()
	}
	n := *worldCount
	first := 1
	if *o3seed > 0 {
		first, n = *o3seed, *o3seed
	}
	for seed := first; seed <= n; seed++ {
		var a, b [2]float64
		var desc string
		for k := range 2 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(rand.New(rand.NewPCG(uint64(seed), 0)))
				w.faults = nil
				w.maxRate = 0
				if w.rate == 0 {
					w.rate = 100
				}
				w.alone = k == 1
				w.run(t)
				desc = w.String()
				n, s := w.accepted()
				if *o3seed > 0 {
					h, g := map[int]int{}, map[int]int{}
					for _, s := range w.sent {
						h[int(s.at/time.Second)]++
						if !s.accepted {
							g[int(s.at/time.Second)]++
						}
					}
					for i := range 62 {
						fmt.Print(h[i], "/", g[i], " ")
					}
					fmt.Println()
				}
				if k == 0 {
					a = [2]float64{n, s}
				} else {
					b = [2]float64{n, s}
				}
			})
		}
		fmt.Printf("%d %.3f fleet %.0f of %.0f (%.3f) alone %.0f of %.0f (%.3f) %s\n", seed, a[0]/b[0], a[0], a[1], 1-a[0]/a[1], b[0], b[1], 1-b[0]/b[1], desc)
	}
}
