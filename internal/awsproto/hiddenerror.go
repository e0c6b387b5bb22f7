package awsproto

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
)

// MayHideError reports whether the body of a 200 response to the request may be an
// error document of Amazon S3. S3 sends such documents for CopyObject,
// UploadPartCopy and CompleteMultipartUpload, whose status it must send before it
// knows the outcome, and sometimes for other operations. MayHideError returns false
// if the body may be the caller's data, which may look the same.
func MayHideError(req *http.Request) bool {
	// This runs for every successful request, so the first tests are inlined.
	return (req.Method == http.MethodPut || req.URL != nil && req.URL.RawQuery != "") && mayHideError(req)
}

func mayHideError(req *http.Request) bool {
	if req.Method == http.MethodPut && len(req.Header["X-Amz-Copy-Source"]) > 0 {
		return true
	}
	if req.URL == nil {
		return false
	}
	for query := req.URL.RawQuery; query != ""; {
		var parameter string
		parameter, query, _ = strings.Cut(query, "&")
		switch i := strings.IndexByte(parameter, '='); {
		case i < 0 || i == len(parameter)-1:
			name := strings.TrimSuffix(parameter, "=")
			if objectResources[name] || subresources[name] && !namesObject(req) {
				return true
			}
		case parameter == "list-type=2", parameter == "x-id=ListBuckets", parameter == "x-id=ListDirectoryBuckets":
			if !namesObject(req) {
				return true
			}
		case parameter[:i] == "uploadId" && req.Method != http.MethodPut: // with PUT it is UploadPart
			return true
		}
	}
	return false
}

// namesObject reports whether the request is a GET with the key of an object in its
// path. A server may ignore a parameter for buckets in such a request.
func namesObject(req *http.Request) bool {
	if req.Method != http.MethodGet && req.Method != "" {
		return false
	}
	key := strings.TrimPrefix(req.URL.Path, "/")
	if !strings.Contains(req.URL.Host, ".s3") { // the host does not name the bucket, so the path does
		_, key, _ = strings.Cut(key, "/")
	}
	return key != ""
}

// subresources are the query parameters without a value that name an operation of
// S3, as serializers.go of github.com/aws/aws-sdk-go-v2/service/s3 v1.114.10 has
// them. Its internal/customizations/handle_200_error.go looks for errors in the
// responses of 107 operations. The other five respond with data and are not here:
// GetObject, which has no such parameter, and those of policy, torrent, annotation
// and select. Parameters with a value are not here either: on a service that is not
// S3 they may mean anything.
var subresources = map[string]bool{
	"abac": true, "accelerate": true, "analytics": true, "cors": true, "delete": true, "encryption": true,
	"intelligent-tiering": true, "inventory": true, "lifecycle": true, "location": true, "logging": true,
	"metadataAnnotationTable": true, "metadataConfiguration": true, "metadataInventoryTable": true,
	"metadataJournalTable": true, "metadataTable": true, "metrics": true, "notification": true, "object-lock": true,
	"ownershipControls": true, "policyStatus": true, "publicAccessBlock": true, "renameObject": true,
	"replication": true, "requestPayment": true, "restore": true, "session": true, "uploads": true, "versioning": true,
	"versions": true, "website": true,
}

// objectResources are the subresources that a GET of an object may have.
var objectResources = map[string]bool{
	"acl": true, "attributes": true, "legal-hold": true, "retention": true, "tagging": true,
}

// A HiddenError looks for the start of an S3 error document in a body that is
// still arriving.
type HiddenError struct{ skipped int } // bytes before the root element

const (
	byteOrderMark = "\xef\xbb\xbf"
	comment       = "<!--"
	errorRoot     = "<Error"
)

// Impossible reports whether the body is not an S3 error document: something
// other than <Error follows the white space, the XML declaration and the
// comments. Each call gets the same body from its first byte, and more of it.
func (h *HiddenError) Impossible(body []byte) bool {
	for {
		rest := body[h.skipped:]
		var end string
		switch {
		case len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			h.skipped++
			continue
		case bytes.HasPrefix(rest, []byte(byteOrderMark)):
			h.skipped += len(byteOrderMark)
			continue
		case bytes.HasPrefix(rest, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(rest, []byte(comment)):
			end = "-->"
		default:
			return !mayBeginError(rest) && !mayBegin(rest, comment) && !mayBegin(rest, byteOrderMark)
		}
		i := bytes.Index(rest, []byte(end))
		if i < 0 {
			return false
		}
		h.skipped += i + len(end)
	}
}

// unknownError is the code of an error document without one, as in the AWS SDK for Go.
const unknownError = "UnknownError"

// Code returns the code of the S3 error document that body is or begins. It returns
// UnknownError if the document has no code, and "" if body is something else.
func (h *HiddenError) Code(body []byte) string {
	if h.Impossible(body) {
		return ""
	}
	if rest := body[h.skipped:]; len(rest) == len(errorRoot) || !bytes.HasPrefix(rest, []byte(errorRoot)) {
		return "" // the tag has not arrived
	}
	return cmp.Or(BodyCode(nil, body), unknownError)
}

// mayBeginError reports whether body begins with the tag of errorRoot, or with
// as much of it as has arrived.
func mayBeginError(body []byte) bool {
	return mayBegin(body, errorRoot) &&
		(len(body) <= len(errorRoot) || strings.IndexByte(" \t\r\n/>", body[len(errorRoot)]) >= 0)
}

// mayBegin reports whether text, or as much of it as has arrived, is at the
// start of body.
func mayBegin(body []byte, text string) bool {
	n := min(len(body), len(text))
	return string(body[:n]) == text[:n]
}
