package awsretry

import (
	"net/http"
	"strings"
)

// maxDocument is the length up to which WholeDocuments reads a document.
const maxDocument = 64 << 10

// WholeDocuments is a Transport.Peek that reads small documents whole before the
// response is returned, so that one that breaks off is a failed attempt, and not an
// error of the caller's Read. A document is JSON or XML of a known length of up to 64
// KiB. Streams of events have another type, or no known length, and are not read.
//
// The service has executed such a request. [IdempotentOnly] makes the break Permanent
// unless it is safe to send the request twice; the [*Error] says MaybeExecuted. A Peek
// of your own may call WholeDocuments for what it does not read itself.
func WholeDocuments(resp *http.Response, body []byte) (more bool) {
	return body != nil || 0 < resp.ContentLength && resp.ContentLength <= maxDocument &&
		isDocument(resp.Header.Get("Content-Type"))
}

// isDocument reports whether a media type is JSON or XML.
func isDocument(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	_, format, _ := strings.Cut(kind, "/")
	if at := strings.LastIndexByte(format, '+'); at >= 0 && kind != "application/stream+json" {
		format = format[at+1:]
	}
	return format == "json" || format == "xml"
}
