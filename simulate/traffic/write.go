package traffic

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// File returns the scenario as a file that a person can read and change. Its
// comments explain how the values were fitted, and what the log does not show.
func (f *Fitted) File() ([]byte, error) {
	comments := map[string][]string{}
	for path, text := range f.Comments {
		for _, line := range wrap(text) {
			comments[path] = append(comments[path], "#"+line)
		}
	}
	body, err := scenario.Marshal(f.Scenario, comments)
	if err != nil {
		return nil, err
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

// writeUnseen writes a list of what the log does not show, each line after a
// prefix.
func (f *Fitted) writeUnseen(w io.Writer, prefix string) {
	for _, text := range f.Unseen {
		mark := " -"
		for _, line := range wrap(text) {
			fmt.Fprintf(w, "%s%s%s\n", prefix, mark, line)
			mark = "  "
		}
	}
}

// unseen lists what the log does not show.
func (f *fitting) unseen() {
	f.cannotSee("how much the service can take: it is simulated without a queue, so that more load makes it no slower; " +
		"if you know its capacity, set service.capacity and service.queue")
	if f.arriving {
		f.cannotSee("callers that wait for a call before they make the next: calls are simulated as arriving " +
			"by themselves, so that delays let them pile up; if they wait, say --callers")
	}
	if around := f.latencyWindow(); around > f.window.length()*5/4 {
		f.cannotSee("the latencies of these %v alone: those of %v around them are fitted; a shorter part of "+
			"the log shows more", rounded(f.window.length()), around)
	}
	if r := f.correlation(); r > 0.5 {
		f.cannotSee("why latencies rise with the load (correlation %.2f): the service probably has a queue", r)
	}
	if lost := f.continuing - f.followed; lost > 0 {
		f.cannotSee("what became of %d calls whose retry is announced but does not follow: their context ended during "+
			"the delay, or the log ends before", lost)
	}
	f.cannotSee("calls whose context ended before their first attempt")
	f.cannotSee("how many processes wrote the log, and what else the service has to do")
	f.cannotSee("how long response bodies take to read: an attempt ends with the headers")
	if f.sum.permanent > 0 {
		f.cannotSee("which calls are wanted: %d that failed for good, which no setting retries, count as successful ones",
			f.sum.permanent)
	}
	if f.waits > 0 {
		f.cannotSee("whether attempts waited for a send token or for the end of a shared Retry-After, and the pacing")
	}
	if f.stops["quota"] > 0 || f.waits > 0 || f.sum.throttled+f.sum.errored > 0 {
		f.cannotSee("the size of the retry token bucket: the default, 500, is simulated")
	}
	if f.noTotal > 0 {
		f.cannotSee("how long %d calls of several attempts took: retrylog logs which lines belong together",
			f.noTotal)
	}
	if len(f.hosts) > 1 && f.host == "" {
		f.cannotSee("whether its hosts differ; they are fitted as one service: %s", f.hostList())
	}
	f.skipped()
}

// skipped lists the lines that were not used.
func (f *fitting) skipped() {
	n := f.Lines
	for _, part := range []struct {
		n   int64
		are string
	}{
		{n.Unreadable, "look like those of retrylog, but are cut or changed"},
		{n.TooLong, "are longer than 64 KiB"},
		{n.Astray, "are more than a day away from the others"},
		{n.text, "are of slog's text handler"},
	} {
		if part.n > 0 {
			f.cannotSee("what is in %d lines that %s", part.n, part.are)
		}
	}
	if n.Cut {
		f.cannotSee("the rest of the log, whose compressed data is cut or broken")
	}
}

func (f *fitting) cannotSee(format string, args ...any) {
	f.out.Unseen = append(f.out.Unseen, fmt.Sprintf(format, args...))
}

// round keeps four digits of a number, so that a person can read it.
func round(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // FormatFloat's result can be parsed
	return v
}

func figure(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

// rounded keeps four digits of a duration, down to the microsecond.
func rounded(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	unit := time.Duration(math.Pow(10, max(math.Floor(math.Log10(float64(d)))-3, 3)))
	return d.Round(unit)
}

func duration(d time.Duration) scenario.Duration { return scenario.Duration(rounded(d)) }
