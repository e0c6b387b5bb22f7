package traffic

import "fmt"

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
		f.cannotSee("how long %d calls of several attempts took: awsretry.LogAllTo logs which lines belong together",
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
		{n.Unreadable, "look like those of LogAllTo, but are cut or changed"},
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
