package simulate

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress returns a function that draws a bar on standard error, or nil if that
// is not a terminal, and a function that removes the bar.
func (c *command) progress() (draw func(part float64), done func()) {
	if !c.IsTerminal(c.Err) {
		return nil, func() {}
	}
	const steps = 1000
	bar := progressbar.NewOptions64(steps,
		progressbar.OptionSetWriter(c.Err),
		progressbar.OptionSetDescription("simulating"),
		progressbar.OptionSetWidth(40),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	bar.RenderBlank()
	return func(part float64) { _ = bar.Set64(int64(part * steps)) }, func() { bar.Clear() }
}
