package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// An attempt is a line of awsretry.LogAllTo, or of LogTo. With the number 0 it
// is a call that was refused before its first attempt.
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
	setting string        // the Transport's; "": as before
	said    announcement
}

func (a attempt) start() time.Time { return a.end.Add(-a.elapsed) }

// called returns when the attempt began to wait for its turn: when the call
// began, for the attempt with the number 1.
func (a attempt) called() time.Time { return a.start().Add(-a.waited) }

func (a attempt) throttled() bool { return a.class == classThrottled }
func (a attempt) timedOut() bool  { return a.class == classTimeout }
func (a attempt) errored() bool   { return a.class == classTransient }

// The classes, as awsretry.Class.String writes them.
const (
	classSuccess   = "success"
	classPermanent = "permanent"
	classTransient = "transient"
	classTimeout   = "timeout"
	classThrottled = "throttled"
)

// The limits of what a line may say. Anything else is not from LogTo.
const (
	longestTime   = 24 * time.Hour
	highestNumber = 1_000_000
)

var (
	earliest = time.Unix(0, 0)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// A sort is what kind of line a line is.
type sort int

const (
	ofLogTo sort = iota
	ofOthers
	unreadable // of LogTo, but cut or changed
	ofText     // of LogTo with slog's text handler
)

// fields are the attributes that LogTo writes, and durations as it wrote them
// before their names had a unit. encoding/json takes the last of
// several of one name, which is LogTo's: attributes of the logger come before
// it.
type fields struct {
	Time    time.Time    `json:"time"`
	Attempt int          `json:"attempt"`
	Class   string       `json:"class"`
	URL     string       `json:"url"`
	Status  int          `json:"status"`
	Code    string       `json:"code"`
	Elapsed *span        `json:"elapsed"`
	Waited  span         `json:"waited"`
	Late    span         `json:"late"`
	Delay   *span        `json:"delay"`
	Call    string       `json:"call"`
	Stop    string       `json:"stop"`
	Limits  announcement `json:"limits"`
	Most    int          `json:"max_attempts"`
	Setting string       `json:"setting"`

	ElapsedMS *float64 `json:"elapsed_ms"`
	WaitedMS  *float64 `json:"waited_ms"`
	LateMS    *float64 `json:"late_ms"`
	DelayMS   *float64 `json:"delay_ms"`
}

// spans fills in the durations that a line has in milliseconds. It returns false
// if one makes no sense.
func (f *fields) spans() bool {
	for _, d := range []struct {
		to   *span
		from *float64
	}{{&f.Waited, f.WaitedMS}, {&f.Late, f.LateMS}, {f.Elapsed, f.ElapsedMS}, {f.Delay, f.DelayMS}} {
		if d.from == nil {
			continue
		}
		ns := *d.from * float64(time.Millisecond)
		if !(ns >= 0 && ns <= float64(longestTime)) {
			return false
		}
		*d.to = span(ns)
	}
	return true
}

// parse reads a line.
func parse(line []byte) (attempt, sort) {
	if !bytes.Contains(line, []byte(`"attempt"`)) || !bytes.Contains(line, []byte(`"class"`)) {
		if bytes.Contains(line, []byte(" attempt=")) && bytes.Contains(line, []byte(" class=")) {
			return attempt{}, ofText
		}
		return attempt{}, ofOthers
	}
	var f fields
	if json.Unmarshal(line, &f) != nil {
		return attempt{}, unreadable
	}
	if f.Elapsed == nil && f.ElapsedMS != nil {
		f.Elapsed = new(span)
	}
	if f.Delay == nil && f.DelayMS != nil {
		f.Delay = new(span)
	}
	if !f.spans() {
		return attempt{}, unreadable
	}
	switch f.Class {
	case classSuccess, classPermanent, classTransient, classTimeout, classThrottled:
	default:
		return attempt{}, unreadable
	}
	if f.Time.Before(earliest) || f.Time.After(latest) || f.Attempt < 0 || f.Attempt > highestNumber ||
		(f.Delay == nil) != (f.Stop != "") || f.Status < 0 || f.Status > 999 ||
		f.Attempt > 0 && f.Elapsed == nil || f.Attempt == 0 && f.Stop == "" {
		return attempt{}, unreadable
	}
	a := attempt{
		end: f.Time.Add(-time.Duration(f.Late)), number: f.Attempt, class: f.Class, status: f.Status,
		code: clip(f.Code), host: clip(hostOf(f.URL)), waited: time.Duration(f.Waited), id: clip(f.Call), stop: f.Stop,
		most: min(max(f.Most, 0), highestNumber), setting: clip(f.Setting), said: f.Limits,
	}
	if f.Elapsed != nil && f.Attempt > 0 {
		a.elapsed = time.Duration(*f.Elapsed)
	}
	if f.Delay != nil {
		a.delay = time.Duration(*f.Delay)
	}
	return a, ofLogTo
}

// clip keeps what is remembered of a text short.
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

// A span is a duration: nanoseconds, as slog's JSON handler writes it, or text
// with a unit, as programs with a ReplaceAttr of their own do.
type span time.Duration

var errSpan = errors.New("traffic: a duration is negative or too long")

func (s *span) UnmarshalJSON(text []byte) error {
	var d time.Duration
	if text[0] == '"' {
		var unquoted string
		err := json.Unmarshal(text, &unquoted)
		if err == nil {
			d, err = time.ParseDuration(unquoted)
		}
		if err != nil {
			return err
		}
	} else {
		ns, err := strconv.ParseFloat(string(text), 64)
		if err != nil || math.Abs(ns) > float64(longestTime) {
			return errSpan
		}
		d = time.Duration(ns)
	}
	if d < 0 || d > longestTime {
		return errSpan
	}
	*s = span(d)
	return nil
}
