package services

import (
	"bytes"
	"mime"
	"net/http"
	"slices"

	"example.com/awsretry"
)

// An event classifies a stream event for the retry decision.
type event struct {
	kind  eventKind
	class awsretry.Class // of a failure; Success if unknown
}

type eventKind int

const (
	isPreamble eventKind = iota // the service is still working
	isContent
	isFailure
)

var preamble, content = event{kind: isPreamble}, event{kind: isContent}

func failure(class awsretry.Class) event { return event{isFailure, class} }

// An eventReader classifies the event with that name and data.
type eventReader func(name string, data []byte) event

// longestPreamble limits how much of a stream is read before its first content,
// because all of it is parsed again after each Read.
const longestPreamble = 256 << 10

// peekAtStream returns a Peek that reads an event stream until its first content
// or failure.
func peekAtStream(read eventReader) func(*http.Response, []byte) bool {
	return func(resp *http.Response, body []byte) (more bool) {
		return isType(resp, eventStream) && len(body) < longestPreamble && firstEvent(body, read).kind == isPreamble
	}
}

const eventStream = "text/event-stream"

// isType reports whether a response has that media type.
func isType(resp *http.Response, want string) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == want
}

// firstFailure returns the class of the failure with which an event stream begins,
// or Success if there is none.
func firstFailure(a *awsretry.Attempt, read eventReader) awsretry.Class {
	if !isType(a.Response, eventStream) {
		return awsretry.Success
	}
	return firstEvent(a.Body, read).class
}

// firstEvent returns the first event that is not a preamble, or a preamble if there
// is no such event yet. It ignores an incomplete event.
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
