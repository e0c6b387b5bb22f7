package awsproto

import (
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	noHeader   = http.Header{}
	jsonHeader = http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
	xmlHeader  = http.Header{"Content-Type": {"text/xml;charset=UTF-8"}}
	htmlHeader = http.Header{"Content-Type": {"text/html"}}
	cborHeader = http.Header{"Content-Type": {"application/cbor"}, "Smithy-Protocol": {"rpc-v2-cbor"}}
)

// errorBodies has the code in each file of testdata/errors. Some have the wrong
// Content-Type, as in practice.
var errorBodies = []struct {
	file   string
	header http.Header
	want   string
}{
	{"json10_dynamodb.json", jsonHeader, "ProvisionedThroughputExceededException"},
	{"json11_kinesis.json", jsonHeader, "LimitExceededException"},
	{"json11_type_address.json", jsonHeader, "FooError"},
	{"restjson_code.json", htmlHeader, "TooManyRequestsException"},
	{"restjson_message_only.json", jsonHeader, ""},
	{"json_code_before_type.json", jsonHeader, "ThrottlingException"},
	{"json_type_not_string.json", jsonHeader, "InternalServerError"},
	{"json_type_empty.json", jsonHeader, "RequestTimeout"},
	{"json_nested_type.json", jsonHeader, ""},
	{"json_nested_then_type.json", jsonHeader, "RequestLimitExceeded"},
	{"json_code_number.json", jsonHeader, ""},
	{"json_duplicate.json", jsonHeader, "SlowDown"},
	{"json_big_number.json", jsonHeader, "ThrottlingException"},
	{"json_escaped.json", jsonHeader, "SlowDown"},
	{"json_not_printable.json", jsonHeader, ""},
	{"json_bom.json", noHeader, "ThrottlingException"},
	{"json_cut_in_code.json", jsonHeader, ""},
	{"json_cut_at_quote.json", jsonHeader, "ThrottlingException"},
	{"json_broken_behind_code.json", jsonHeader, "ThrottlingException"},
	{"json_broken_before_code.json", jsonHeader, ""},
	{"json_array.json", jsonHeader, ""},
	{"json_github_rate_limit.json", jsonHeader, ""},

	{"s3_slow_down.xml", xmlHeader, "SlowDown"},
	{"s3_copy_result.xml", xmlHeader, ""},
	{"query_throttling.xml", jsonHeader, "Throttling"},
	{"ec2_request_limit.xml", xmlHeader, "RequestLimitExceeded"},
	{"soap11_server.xml", xmlHeader, "Server.ServiceUnavailable"},
	{"soap11_no_prefix.xml", xmlHeader, "Server.InternalError"},
	{"soap12_receiver.xml", xmlHeader, "Server.ServiceUnavailable"},
	{"soap12_value_with_children.xml", xmlHeader, ""},
	{"soap_fault_in_header.xml", xmlHeader, ""},
	{"xml_nested_code.xml", xmlHeader, ""},
	{"xml_code_with_children.xml", xmlHeader, ""},
	{"xml_empty_then_code.xml", xmlHeader, "SlowDown"},
	{"xml_unusable_then_code.xml", xmlHeader, "SlowDown"},
	{"xml_text_behind_code.xml", xmlHeader, ""},
	{"xml_second_root.xml", xmlHeader, ""},
	{"xml_latin1.xml", xmlHeader, "SlowDown"},
	{"xml_latin1_code.xml", xmlHeader, ""},
	{"xml_bom.xml", xmlHeader, "SlowDown"},
	{"xml_entities.xml", xmlHeader, ""},
	{"xml_cut_behind_code.xml", xmlHeader, "SlowDown"},
	{"xml_cut_in_code.xml", xmlHeader, ""},
	{"xml_cut_in_end_tag.xml", xmlHeader, ""},

	{"html_bad_gateway.html", htmlHeader, ""},
	{"plain_text.txt", jsonHeader, ""},
	{"empty.txt", jsonHeader, ""},
	{"utf16.txt", xmlHeader, ""},

	{"cbor_throttling.hex", cborHeader, "ThrottlingException"},
	{"cbor_indefinite.hex", http.Header{"Smithy-Protocol": {"rpc-v2-cbor"}}, "SlowDown"},
	{"cbor_throttling.hex", http.Header{"Content-Type": {"application/x-amz-cbor-1.1"}}, "ThrottlingException"},
	{"cbor_wide_head.hex", http.Header{"Content-Type": {"Application/CBOR; x=y"}}, "InternalFailure"},
	{"cbor_other_keys.hex", cborHeader, ""},
	{"cbor_24_pairs.hex", cborHeader, "SlowDown"},
	{"cbor_nested_type.hex", cborHeader, ""},
	{"cbor_type_number.hex", cborHeader, ""},
	{"cbor_type_address.hex", cborHeader, "SlowDown"},
	{"cbor_cut_behind_code.hex", cborHeader, "SlowDown"},
	{"cbor_cut_in_code.hex", cborHeader, ""},
	{"cbor_behind_the_end.hex", cborHeader, ""},
	{"cbor_huge_counts.hex", cborHeader, ""},
	{"cbor_reserved_head.hex", cborHeader, ""},
	{"cbor_array.hex", cborHeader, ""},

	// A body is CBOR if both the headers and its first byte say so.
	{"json11_kinesis.json", cborHeader, "LimitExceededException"},
	{"s3_slow_down.xml", cborHeader, "SlowDown"},
	{"empty.txt", cborHeader, ""},
	{"cbor_throttling.hex", jsonHeader, ""},
	{"cbor_throttling.hex", http.Header{"Smithy-Protocol": {"rpc-v2-json"}}, ""},
}

// readErrorBody reads a file of testdata/errors. A .hex file has the bytes as
// hexadecimal digits and white space.
func readErrorBody(tb testing.TB, file string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "errors", file))
	if err != nil {
		tb.Fatal(err)
	}
	if filepath.Ext(file) == ".hex" {
		if b, err = hex.DecodeString(strings.Join(strings.Fields(string(b)), "")); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
	}
	return b
}

func TestBodyCode(t *testing.T) {
	var inTable []string
	for _, tt := range errorBodies {
		inTable = append(inTable, tt.file)
		t.Run(tt.file, func(t *testing.T) {
			if got := BodyCode(tt.header, readErrorBody(t, tt.file)); got != tt.want {
				t.Errorf("BodyCode = %q, want %q", got, tt.want)
			}
		})
	}
	entries, err := os.ReadDir(filepath.Join("testdata", "errors"))
	if err != nil {
		t.Fatal(err)
	}
	var onDisk []string
	for _, e := range entries {
		onDisk = append(onDisk, e.Name())
	}
	slices.Sort(onDisk)
	slices.Sort(inTable)
	inTable = slices.Compact(inTable)
	if d := cmp.Diff(onDisk, inTable); d != "" {
		t.Errorf("files in testdata/errors (-) and in the table (+) differ:\n%s", d)
	}
}

func TestHeaderCode(t *testing.T) {
	const internal = "http://internal.amazon.com/coral/com.amazonaws.x/"
	for value, want := range map[string]string{ // of X-Amzn-ErrorType
		"":                                "",
		"ThrottlingException:" + internal: "ThrottlingException",
		"aws.protocoltests.json#Foo:http://x/y#z": "Foo",
		" a# Foo : http://x":                      "Foo",
		"ns#Foo, ns#Bar":                          "Foo", // joined by a proxy
		"ns#Foo:http://x/a,b":                     "Foo",
		strings.Repeat("x", 256):                  strings.Repeat("x", 256),
		strings.Repeat("x", 257):                  "",
		"Foo\x00Bar":                              "",
		"Foo\x7f":                                 "",
		"Fo\u00f6":                                "",
	} {
		if got := HeaderCode(http.Header{"X-Amzn-Errortype": {value}}); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	for _, tt := range []struct {
		errorType, queryError []string
		want                  string
	}{
		{nil, nil, ""},
		{[]string{"Foo", "Bar"}, nil, "Foo"},
		{[]string{" ", "Bar"}, nil, "Bar"},
		{[]string{"Foo"}, []string{"RequestThrottled;Sender"}, "RequestThrottled"},
		{nil, []string{";Sender", "Foo;Sender", "Bar;Sender"}, "Foo"},
		{[]string{"Foo"}, []string{strings.Repeat("x", 257) + ";Sender"}, "Foo"},
	} {
		h := http.Header{"X-Amzn-Requestid": {"1"}, "X-Amzn-Errortype": tt.errorType, "X-Amzn-Query-Error": tt.queryError}
		if got := HeaderCode(h); got != tt.want {
			t.Errorf("%v: %q, want %q", h, got, tt.want)
		}
		if n := testing.AllocsPerRun(100, func() { HeaderCode(h) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0", h, n)
		}
	}
}

func TestMayHoldCode(t *testing.T) {
	for name, ofName := range map[string]map[bool][]string{
		"Content-Type": {
			true: {"", "application/json", "application/octet-stream", "text/html", "not a media type;;"},
			false: {
				"Text/Event-Stream; charset=utf-8", " application/vnd.amazon.eventstream ", "application/x-ndjson",
				"application/grpc+proto", "application/connect+json", "multipart/x-mixed-replace; boundary=x",
				"image/svg+xml", "audio/mpeg", "video/mp4", "font/woff2",
			},
		},
		"Transfer-Encoding": {true: {"chunked"}},
	} {
		for want, values := range ofName {
			for _, value := range values {
				if got := MayHoldCode(http.Header{name: {value}}); got != want {
					t.Errorf("%s %q: %v, want %v", name, value, got, want)
				}
			}
		}
	}
}
