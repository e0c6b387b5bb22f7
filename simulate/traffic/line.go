package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
)

// An attempt is a line of retrylog, or of LogTo. With the number 0 it
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
	earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
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

// fields are the attributes that LogTo writes. encoding/json takes the last of
// several of one name, which is LogTo's: attributes of the logger come before
// it.
type fields struct {
	Time    time.Time    `json:"time"`
	Attempt int          `json:"attempt"`
	Class   string       `json:"class"`
	URL     string       `json:"url"`
	Status  int          `json:"status"`
	Code    string       `json:"code"`
	Elapsed *span        `json:"elapsed_ms"`
	Waited  span         `json:"waited_ms"`
	Late    span         `json:"late_ms"`
	Delay   *span        `json:"delay_ms"`
	Call    string       `json:"call"`
	Stop    string       `json:"stop"`
	Limits  announcement `json:"limits"`
	Most    int          `json:"max_attempts"`
	Setting string       `json:"setting"`
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

// A span is a duration that a line has in milliseconds.
type span time.Duration

var errSpan = errors.New("traffic: a duration is negative or too long")

func (s *span) UnmarshalJSON(text []byte) error {
	var ms float64
	if err := json.Unmarshal(text, &ms); err != nil {
		return err
	}
	if !(ms >= 0 && ms <= float64(longestTime.Milliseconds())) {
		return errSpan
	}
	*s = span(math.Round(ms * float64(time.Millisecond)))
	return nil
}
