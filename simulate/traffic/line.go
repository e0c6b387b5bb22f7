package traffic

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"

	written "example.com/awsretry/internal/record"
)

// An attempt is a line of retrylog, or of LogTo. Number 0 is a call that was
// refused before its first attempt.
type attempt struct {
	end     time.Time // when its outcome was known
	number  int
	class   string
	status  int // 0: no response
	code    string
	host    string
	elapsed time.Duration
	waited  time.Duration
	delay   time.Duration // before the next one
	id      string        // of the call; "": not logged
	stop    string        // "" if another one follows
	most    int           // attempts of the call; 0: not logged
	setting string        // of the Transport; "": the same as before
	said    announcement
}

func (a attempt) start() time.Time { return a.end.Add(-a.elapsed) }

// called returns when the attempt began to wait for its turn: when the call
// began, for the attempt with the number 1.
func (a attempt) called() time.Time { return a.start().Add(-a.waited) }

func (a attempt) throttled() bool { return a.class == classThrottled }

// The classes, as awsretry.Class.String writes them.
const (
	classSuccess   = "success"
	classPermanent = "permanent"
	classTransient = "transient"
	classTimeout   = "timeout"
	classThrottled = "throttled"
)

// The limits of the values in a line. A line that exceeds them is not from LogTo.
const (
	longestTime   = 24 * time.Hour
	highestNumber = 1_000_000
)

var (
	earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// A sort is a kind of line.
type sort int

const (
	ofLogTo sort = iota
	ofOthers
	unreadable // of LogTo, but cut or changed
	ofText     // of LogTo with slog's text handler
)

// A logged attempt is a line. Of several attributes with one name, encoding/json
// takes the last, which is LogTo's: those of the logger come before it.
type logged struct {
	Time time.Time `json:"time"`
	written.Record
	Limits announcement `json:"limits"` // in place of the record's text
}

// parse reads a line.
func parse(text []byte) (attempt, sort) {
	if !bytes.Contains(text, []byte(`"attempt"`)) || !bytes.Contains(text, []byte(`"class"`)) {
		if bytes.Contains(text, []byte(" attempt=")) && bytes.Contains(text, []byte(" class=")) {
			return attempt{}, ofText
		}
		return attempt{}, ofOthers
	}
	var l logged
	if json.Unmarshal(text, &l) != nil {
		return attempt{}, unreadable
	}
	switch l.Class {
	case classSuccess, classPermanent, classTransient, classTimeout, classThrottled:
	default:
		return attempt{}, unreadable
	}
	if l.Time.Before(earliest) || l.Time.After(latest) || l.Attempt < 0 || l.Attempt > highestNumber ||
		(l.Delay == nil) != (l.Stop != "") || l.Status < 0 || l.Status > 999 ||
		l.Attempt > 0 && l.Elapsed == nil || l.Attempt == 0 && l.Stop == "" {
		return attempt{}, unreadable
	}
	bad := false
	span := func(ms written.Milliseconds) time.Duration {
		bad = bad || !(ms >= 0 && float64(ms) <= float64(longestTime.Milliseconds()))
		return time.Duration(math.Round(float64(ms) * float64(time.Millisecond)))
	}
	a := attempt{
		end: l.Time.Add(-span(l.Late)), number: l.Attempt, class: l.Class, status: l.Status,
		code: clip(l.Code), host: clip(hostOf(l.URL)), waited: span(l.Waited), id: clip(l.Call), stop: l.Stop,
		most: min(max(l.MaxAttempts, 0), highestNumber), setting: clip(l.Setting), said: l.Limits,
	}
	if l.Elapsed != nil {
		if elapsed := span(*l.Elapsed); l.Attempt > 0 {
			a.elapsed = elapsed
		}
	}
	if l.Delay != nil {
		a.delay = span(*l.Delay)
	}
	if bad {
		return attempt{}, unreadable
	}
	return a, ofLogTo
}

// clip shortens a text that is kept.
func clip(s string) string { return strings.Clone(s[:min(len(s), 100)]) }

// hostOf returns the host of a URL in lower case, with its port.
func hostOf(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		url = rest
	}
	if i := strings.IndexAny(url, "/?#"); i >= 0 {
		url = url[:i]
	}
	return strings.ToLower(url)
}
