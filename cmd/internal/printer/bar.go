package printer

import (
	"io"

	"github.com/schollz/progressbar/v3"
)

// NewBar returns a bar of total steps, -1 for an unknown number, without colors.
func NewBar(w io.Writer, total int64, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetWidth(25),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░"}),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
	}, options...)...)
}
