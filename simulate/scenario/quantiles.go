package scenario

import (
	"fmt"
)

// A Quantile is a point of a measured distribution: a share of the requests
// takes at most that time.
type Quantile struct {
	Share  float64  `yaml:"share" json:"share"`
	Within Duration `yaml:"within" json:"within"`
}

const maxQuantiles = 1000

// quantiles checks the table of a latency. It begins with the share 0 and ends
// with 1.
func (c *checker) quantiles(field string, l Latency) {
	if l.Distribution != Tabulated {
		c.check(len(l.Table) == 0, field+".table", "set", "left out: it is for the distribution %s only", Tabulated)
		return
	}
	c.check(l.Median == 0, field+".median", l.Median, "left out: the table has it")
	c.check(l.P99 == 0, field+".p99", l.P99, "left out: the table has it")
	c.check(len(l.Table) >= 2 && len(l.Table) <= maxQuantiles, field+".table", fmt.Sprintf("%d entries", len(l.Table)),
		"2 to %d", maxQuantiles)
	var last Quantile
	for i, q := range l.Table[:min(len(l.Table), maxQuantiles)] {
		entry := fmt.Sprintf("%s.table[%d]", field, i)
		c.within(entry+".within", q.Within, last.Within, Duration(maxTime))
		switch i {
		case 0:
			c.check(q.Share == 0, entry+".share", q.Share, "0, for the shortest time")
		case len(l.Table) - 1:
			c.check(q.Share == 1, entry+".share", q.Share, "1, for the longest time")
		default:
			c.check(q.Share > last.Share && q.Share < 1, entry+".share", q.Share,
				"above the one before, %v, and below 1", last.Share)
		}
		last = q
	}
}
