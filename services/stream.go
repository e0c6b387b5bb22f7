package services

import (
	"bytes"
	"mime"
	"net/http"
	"slices"

	"example.com/awsretry"
)

// An event is what an event of a stream means to who may send the request again.
type event struct {
	kind  eventKind
	class awsretry.Class // of a failure; Success: not known
}

type eventKind int

const (
	isPreamble eventKind = iota // says that the work has begun, or that it goes on
	isContent
	isFailure
)

var preamble, content = event{kind: isPreamble}, event{kind: isContent}

func failure(class awsretry.Class) event { return event{isFailure, class} }

// A reader of events is given the name of an event and its data.
type eventReader func(name string, data []byte) event

// longestPreamble limits what is read of a stream before its first content: each
// Read is followed by a look at all of it.
const longestPreamble = 256 << 10

// peekAtStream returns a Peek that reads an event stream until its first content
// or failure.
func peekAtStream(read eventReader) func(*http.Response, []byte) bool {
	return func(resp *http.Response, body []byte) (more bool) {
		return isStream(resp) && len(body) < longestPreamble && firstEvent(body, read).kind == isPreamble
	}
}

// isStream reports whether a response is an event stream.
func isStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// firstFailure returns the class of the failure that an event stream begins with,
// or Success.
func firstFailure(a *awsretry.Attempt, read eventReader) awsretry.Class {
	if !isStream(a.Response) {
		return awsretry.Success
	}
	return firstEvent(a.Body, read).class
}

// firstEvent returns the first event that is no preamble, or one that is if there
// is none yet. Of an event that has not ended nothing is known.
func firstEvent(body []byte, read eventReader) event {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	var name string
	var data []byte
	has := false
	for {
		end := bytes.IndexAny(body, "\r\n")
		if end < 0 || end == len(body)-1 && body[end] == '\r' { // a \n may follow
			return preamble
		}
		line := body[:end]
		if body[end] == '\r' && body[end+1] == '\n' {
			end++
		}
		body = body[end+1:]
		if len(line) == 0 {
			if has {
				if e := read(name, data); e.kind != isPreamble {
					return e
				}
			}
			name, data, has = "", nil, false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if has {
				value = slices.Concat(data, []byte{'\n'}, value)
			}
			data, has = value, true
		}
	}
}
