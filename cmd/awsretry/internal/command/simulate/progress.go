package simulate

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress returns what draws a bar on standard error, or nil if that is not a
// terminal, and what removes the bar.
func (c *command) progress() (draw func(part float64), done func()) {
	const steps = 1000
	set, done := c.bar("simulating", steps)
	if set == nil {
		return nil, done
	}
	return func(part float64) { set(int64(part * steps)) }, done
}

// bar returns what draws a bar of that many steps on standard error, or nil if
// that is not a terminal, and what removes the bar. -1 steps draw a spinner.
func (c *command) bar(description string, steps int64) (set func(step int64), done func()) {
	if !c.IsTerminal(c.Err) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(steps,
		progressbar.OptionSetWriter(c.Err),
		progressbar.OptionSetDescription(description),
		progressbar.OptionSetWidth(40),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	bar.RenderBlank()
	return func(step int64) { _ = bar.Set64(step) }, func() { bar.Clear() }
}
