package delivery

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Letter is the head of a dead letter's file: what is known of the dead
// letter except its request. DirQueue writes Err without control characters,
// and without the user, query and fragment of the URLs in it.
type Letter struct {
	Name     string    `json:"-"`                // of the file
	Size     int64     `json:"-"`                // of the file, in bytes
	Time     time.Time `json:"time"`             // of the failure, to the nanosecond
	Method   string    `json:"method"`           //
	URL      string    `json:"url"`              // without user, query and fragment, which may be secret
	Attempts int       `json:"attempts"`         // that were made
	Reason   string    `json:"reason"`           // see DeadLetter
	Status   int       `json:"status,omitempty"` // of the last response; 0 if there was none
	Err      string    `json:"error,omitempty"`  // the last error's text; "" if there was a response
}

// A letter's file is its head as one line of JSON, and then the request as in
// HTTP/1.1 (RFC 9112), with the whole URL in the request line. writeLetter and
// readLetter do not use http.ReadRequest, which changes the letter case of
// header names.

// A fileHead is the first line of a letter's file.
type fileHead struct {
	Letter
	Opaque []byte `json:"opaque,omitempty"` // the URL's, which is sent to URL.Host in place of a path
}

// maxLetterHead limits the part of a file that is read into memory: all but the
// body. It is as long as net/http allows a request's header to be.
const maxLetterHead = 1 << 20

// chunked reports whether a request with a body does not give its length, or
// has trailers.
func chunked(req *http.Request) bool { return req.ContentLength <= 0 || len(req.Trailer) > 0 }

// framing lists the headers that net/http sets itself, whatever the map has.
var framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

func isFraming(name string) bool {
	return slices.ContainsFunc(framing, func(f string) bool { return strings.EqualFold(f, name) })
}
