package simulate

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress returns a function that draws a bar on standard error, or nil if that
// is not a terminal, and a function that removes the bar.
func (c *command) progress() (draw func(part float64), done func()) {
	const steps = 1000
	set, done := c.bar("simulating", steps)
	if set == nil {
		return nil, done
	}
	return func(part float64) { set(int64(part * steps)) }, done
}

// bar returns a function that draws a bar of the given number of steps on standard
// error, or nil if that is not a terminal, and a function that removes the bar.
// If steps is -1, a spinner is drawn.
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
