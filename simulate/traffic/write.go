package traffic

import (
	"bytes"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
)

// File returns the scenario as a file that a person can read and change. Its
// comments say what was fitted from what, and what the log does not show.
func (f *Fitted) File() ([]byte, error) {
	comments := yaml.CommentMap{}
	for path, text := range f.Comments {
		comments[path] = []*yaml.Comment{yaml.HeadComment(wrap(text)...)}
	}
	body, err := yaml.MarshalWithOptions(f.Scenario, yaml.WithComment(comments), yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("traffic: %w", err)
	}
	var out bytes.Buffer
	r := f.Recorded
	for _, line := range wrap(fmt.Sprintf("What a log shows from %s to %s.", stamp(r.From), stamp(r.To))) {
		fmt.Fprintf(&out, "#%s\n", line)
	}
	fmt.Fprintf(&out, "# The recorded figures: %d calls, %d attempts, %d calls succeeded (%s per second), %d failed,\n"+
		"# %d attempts were throttled; p50 %v, p99 %v.\n#\n# The log does not show:\n",
		r.Calls, r.Attempts, r.Good, figure(r.Goodput), r.Failed, r.Throttled, rounded(r.P50), rounded(r.P99))
	f.writeUnseen(&out, "#")
	fmt.Fprintf(&out, "\n%s", body)
	return out.Bytes(), nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// wrap divides a text into lines, each with a space before it.
func wrap(text string) []string {
	const width = 90
	var lines []string
	line := ""
	for _, word := range bytes.Fields([]byte(text)) {
		if line != "" && len(line)+len(word) >= width {
			lines = append(lines, line)
			line = ""
		}
		line += " " + string(word)
	}
	return append(lines, line)
}
