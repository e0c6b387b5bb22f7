package simulate

import (
	"sort"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// quantile returns the time that the share u of the requests takes at most:
// between two points of the table in proportion.
func quantile(table []scenario.Quantile, u float64) time.Duration {
	i := sort.Search(len(table), func(i int) bool { return table[i].Share >= u })
	switch i {
	case 0:
		return time.Duration(table[0].Within)
	case len(table):
		return time.Duration(table[i-1].Within)
	}
	a, b := table[i-1], table[i]
	return time.Duration(a.Within) + span((u-a.Share)/(b.Share-a.Share)*float64(b.Within-a.Within))
}
