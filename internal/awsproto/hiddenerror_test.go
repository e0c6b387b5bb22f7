package awsproto

import (
	"net/http"
	"strings"
	"testing"
)

func TestMayHideError(t *testing.T) {
	for want, requests := range map[bool][]struct{ name, method, query, copySource string }{
		true: {
			{"CopyObject", "PUT", "x-id=CopyObject", "bucket/key"},
			{"UploadPartCopy", "PUT", "partNumber=1&uploadId=5", "bucket/key"},
			{"CompleteMultipartUpload", "POST", "uploadId=5", ""},
			{"DeleteObjects", "POST", "delete", ""},
			{"DeleteObjects, as MinIO's client sends it", "POST", "delete=", ""},
			{"CreateMultipartUpload", "POST", "uploads&x-id=CreateMultipartUpload", ""},
			{"ListObjectsV2", "GET", "delimiter=%2F&list-type=2&prefix=a", ""},
			{"ListObjectVersions", "", "prefix=a&versions", ""},
			{"ListMultipartUploads", "GET", "uploads=", ""},
			{"ListParts", "GET", "max-parts=2&uploadId=5", ""},
			{"ListBuckets", "GET", "max-buckets=9&x-id=ListBuckets", ""},
			{"GetObjectTagging of a version", "GET", "tagging&versionId=3", ""},
			{"GetBucketInventoryConfiguration", "GET", "id=4&inventory&x-id=GetBucketInventoryConfiguration", ""},
			{"PutBucketAcl", "PUT", "acl", ""},
			{"signed in the URL", "GET", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=1&acl=", ""},
		},
		false: {
			{"GetObject", "GET", "", "bucket/key"},
			{"GetObject of an SDK", "GET", "x-id=GetObject", ""},
			{"a version", "GET", "versionId=3", ""},
			{"other headers", "GET", "response-content-type=text%2Fxml&response-cache-control=", ""},
			{"a part", "GET", "partNumber=1", ""},
			{"signed in the URL", "GET", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=1&x-id=GetObject", ""},
			{"a page or an object", "GET", "prefix=a&marker=b", ""},
			{"GetBucketPolicy", "GET", "policy", ""},
			{"GetObjectTorrent", "GET", "torrent", ""},
			{"GetObjectAnnotation", "GET", "annotation&annotationName=a&x-id=GetObjectAnnotation", ""},
			{"SelectObjectContent", "POST", "select&select-type=2", ""},
			{"UploadPart", "PUT", "partNumber=1&uploadId=5", ""},
			{"PutObject", "PUT", "", ""},
			{"a value that has the name", "POST", "x=uploadId&y=delete", ""},
			{"a name in other letters", "GET", "ACL&List-Type=2", ""},
			{"another service", "GET", "location=Berlin&versions=2&session=5&list-type=1&tagging=a&uploadId", ""},
			{"nothing", "POST", "&&=&", ""},
		},
	} {
		for _, tt := range requests {
			req := newRequest(t, tt.method, "https://h/key?"+tt.query, "X-Amz-Copy-Source", tt.copySource)
			if got := MayHideError(req); got != want {
				t.Errorf("%s: got %v, want %v", tt.name, got, want)
			}
			if n := testing.AllocsPerRun(10, func() { MayHideError(req) }); n != 0 {
				t.Errorf("%s: %v allocations", tt.name, n)
			}
		}
	}
	// A GET with the key of an object responds with a document of S3 only if the
	// document is about the object. The path has the bucket if the host does not.
	const pathStyle, virtual = "https://s3.eu-west-1.amazonaws.com/bucket", "https://bucket.s3.eu-west-1.amazonaws.com"
	for _, bucket := range []string{pathStyle, virtual, pathStyle + "/", virtual + "/", "https://h:9000/bucket"} {
		for parameter, ofObjects := range map[string]bool{
			"list-type=2": false, "versions": false, "location=": false, "uploads": false, "x-id=ListBuckets": false,
			"acl": true, "tagging": true, "attributes=": true, "uploadId=5": true,
		} {
			for _, key := range []string{"/key", "/a/key.xml", "//"} {
				object := strings.TrimSuffix(bucket, "/") + key + "?" + parameter
				if got := MayHideError(newRequest(t, "GET", object, "", "")); got != ofObjects {
					t.Errorf("GET %s: got %v, want %v", object, got, ofObjects)
				}
				if !MayHideError(newRequest(t, "POST", object, "", "")) {
					t.Errorf("POST %s: false", object)
				}
			}
			if url := bucket + "?a=b&" + parameter; !MayHideError(newRequest(t, "GET", url, "", "")) {
				t.Errorf("GET %s: false", url)
			}
		}
	}
	for _, method := range []string{"POST", "PUT"} {
		if MayHideError(&http.Request{Method: method}) {
			t.Error("true of a request without a URL")
		}
	}
}

func TestHiddenErrorCode(t *testing.T) {
	for body, want := range map[string]string{
		"<Error><Code>SlowDown</Code></Error>":     "SlowDown",
		"<Error><Message>a</Message></Error>":      "UnknownError",
		"<Error><Code/></Error>":                   "UnknownError",
		"<Error/>":                                 "UnknownError",
		"<?xml version='1.0'?>\n<!-- a --><Error ": "UnknownError",
		"<Error><Code>Slow":                        "UnknownError", // cut off
		"\xef\xbb\xbf<?xml version='1.0' encoding='ISO-8859-1'?><Error><Message>\xe9</Message><Code>SlowDown</Code>": "SlowDown",
		"":                "",
		"<!-- a comment":  "",
		"<Error":          "", // or <Errors
		"<Errors><Code>a": "",
		"<Result><Error><Code>SlowDown</Code></Error></Result>":               "",
		"<ErrorResponse><Error><Code>SlowDown</Code></Error></ErrorResponse>": "",
		`{"code":"SlowDown"}`: "",
	} {
		if got := new(HiddenError).Code([]byte(body)); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// A body arrives in pieces, and the verdict must not depend on how it is cut.
func TestHiddenError(t *testing.T) {
	for body, want := range map[string]bool{ // whether it can be excluded
		"":                               false,
		" \r\n":                          false,
		"<Err":                           false,
		"<?xml version='1.0'?>\n<Error>": false,
		"\xef\xbb\xbf<?xml version='1.0'?><!-- a --><Error": false,
		"<!-- <CopyObjectResult> ":                          false,
		"<CopyObjectResult>":                                true,
		"<?xml version='1.0'?><CopyObjectResult>":           true,
		"<!-- --> <Errata>":                                 true,
		"Error":                                             true,
		"<Error ":                                           false,
		"<Error>":                                           false,
		"<Errors>":                                          true,
		"<ErrorResponse><Error>":                            true,
	} {
		if got := new(HiddenError).Impossible([]byte(body)); got != want {
			t.Errorf("%q at once: %v, want %v", body, got, want)
		}
		h, got := new(HiddenError), false
		for n := range len(body) + 1 {
			got = h.Impossible([]byte(body[:n]))
			if got && !want {
				t.Errorf("%q, %d bytes of it: excluded", body, n)
			}
		}
		if got != want {
			t.Errorf("%q byte by byte: %v, want %v", body, got, want)
		}
	}
}
