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
	{"json11_coral.json", jsonHeader, "InternalFailure"},
	{"restjson_code.json", htmlHeader, "TooManyRequestsException"},
	{"restjson_capital_code.json", xmlHeader, "ServiceUnavailable"},
	{"restjson_message_only.json", jsonHeader, ""},
	{"json_code_before_type.json", jsonHeader, "ThrottlingException"},
	{"json_type_not_string.json", jsonHeader, "InternalServerError"},
	{"json_type_empty.json", jsonHeader, "RequestTimeout"},
	{"json_nested_type.json", jsonHeader, ""},
	{"json_nested_then_type.json", jsonHeader, "RequestLimitExceeded"},
	{"json_message_mentions.json", jsonHeader, ""},
	{"json_code_number.json", jsonHeader, ""},
	{"json_duplicate.json", jsonHeader, "SlowDown"},
	{"json_big_number.json", jsonHeader, "ThrottlingException"},
	{"json_escaped.json", jsonHeader, "SlowDown"},
	{"json_not_printable.json", jsonHeader, ""},
	{"json_bom.json", noHeader, "ThrottlingException"},
	{"json_cut_behind_code.json", jsonHeader, "ThrottlingException"},
	{"json_cut_in_code.json", jsonHeader, ""},
	{"json_cut_at_quote.json", jsonHeader, "ThrottlingException"},
	{"json_broken_behind_code.json", jsonHeader, "ThrottlingException"},
	{"json_broken_before_code.json", jsonHeader, ""},
	{"json_array.json", jsonHeader, ""},
	{"json_string.json", jsonHeader, ""},
	{"json_github_rate_limit.json", jsonHeader, ""},
	{"json_openai_rate_limit.json", jsonHeader, ""},
	{"json_problem.json", jsonHeader, ""},

	{"s3_slow_down.xml", xmlHeader, "SlowDown"},
	{"s3_complete_upload_200.xml", xmlHeader, "InternalError"},
	{"s3_copy_result.xml", xmlHeader, ""},
	{"query_throttling.xml", jsonHeader, "Throttling"},
	{"query_prefixed.xml", xmlHeader, "RequestLimitExceeded"},
	{"ec2_request_limit.xml", xmlHeader, "RequestLimitExceeded"},
	{"simpledb_unavailable.xml", noHeader, "ServiceUnavailable"},
	{"soap11_server.xml", xmlHeader, "Server.ServiceUnavailable"},
	{"soap11_client.xml", xmlHeader, "Client.InvalidParameterValue"},
	{"soap11_no_prefix.xml", xmlHeader, "Server.InternalError"},
	{"soap12_receiver.xml", xmlHeader, "Server.ServiceUnavailable"},
	{"soap12_value_with_children.xml", xmlHeader, ""},
	{"soap_fault_in_header.xml", xmlHeader, ""},
	{"xml_message_mentions.xml", xmlHeader, ""},
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
	{"xml_broken_behind_code.xml", xmlHeader, "SlowDown"},

	{"html_bad_gateway.html", htmlHeader, ""},
	{"html_elb.html", xmlHeader, ""},
	{"plain_text.txt", jsonHeader, ""},
	{"empty.txt", jsonHeader, ""},
	{"utf16.txt", xmlHeader, ""},

	{"cbor_throttling.hex", cborHeader, "ThrottlingException"},
	{"cbor_indefinite.hex", http.Header{"Smithy-Protocol": {"rpc-v2-cbor"}}, "SlowDown"},
	{"cbor_wide_head.hex", http.Header{"Content-Type": {"Application/CBOR; x=y"}}, "InternalFailure"},
	{"cbor_other_values.hex", cborHeader, "RequestTimeout"},
	{"cbor_other_keys.hex", cborHeader, ""},
	{"cbor_23_pairs.hex", cborHeader, "SlowDown"},
	{"cbor_24_pairs.hex", cborHeader, "SlowDown"},
	{"cbor_nested_type.hex", cborHeader, ""},
	{"cbor_type_number.hex", cborHeader, ""},
	{"cbor_type_bytes.hex", cborHeader, ""},
	{"cbor_type_address.hex", cborHeader, "SlowDown"},
	{"cbor_duplicate.hex", cborHeader, "SlowDown"},
	{"cbor_cut_behind_code.hex", cborHeader, "SlowDown"},
	{"cbor_cut_in_code.hex", cborHeader, ""},
	{"cbor_behind_the_end.hex", cborHeader, ""},
	{"cbor_behind_the_break.hex", cborHeader, ""},
	{"cbor_huge_counts.hex", cborHeader, ""},
	{"cbor_reserved_head.hex", cborHeader, ""},
	{"cbor_array.hex", cborHeader, ""},
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
	if d := cmp.Diff(onDisk, inTable); d != "" {
		t.Errorf("files in testdata/errors (-) and in the table (+) differ:\n%s", d)
	}
}

// A body is CBOR if both the headers and its first byte say so.
func TestBodyCodeLabel(t *testing.T) {
	tests := []struct {
		name   string
		header http.Header
		file   string
		want   string
	}{
		{"JSON labeled as CBOR", cborHeader, "json11_kinesis.json", "LimitExceededException"},
		{"XML labeled as CBOR", cborHeader, "s3_slow_down.xml", "SlowDown"},
		{"nothing labeled as CBOR", cborHeader, "empty.txt", ""},
		{"CBOR labeled as JSON", jsonHeader, "cbor_throttling.hex", ""},
		{"another Smithy protocol", http.Header{"Smithy-Protocol": {"rpc-v2-json"}}, "cbor_throttling.hex", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := BodyCode(tt.header, readErrorBody(t, tt.file)); got != tt.want {
				t.Errorf("BodyCode = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHeaderCode(t *testing.T) {
	const errorType, queryError = "X-Amzn-ErrorType", "x-amzn-query-error"
	tests := []struct {
		name   string
		header [][2]string
		want   string
	}{
		{"none", nil, ""},
		{"others", [][2]string{{"X-Amzn-RequestId", "ThrottlingException"}}, ""},
		{"plain", [][2]string{{errorType, "ThrottlingException"}}, "ThrottlingException"},
		{"letter case of the name", [][2]string{{"x-amzn-errortype", "SlowDown"}}, "SlowDown"},
		{"address", [][2]string{{errorType, "ThrottlingException:http://internal.amazon.com/coral/com.amazonaws.x/"}},
			"ThrottlingException"},
		{"namespace", [][2]string{{errorType, "com.amazon.coral.service#InternalFailure"}}, "InternalFailure"},
		{"namespace and address with #", [][2]string{{errorType, "aws.protocoltests.json#Foo:http://x/y#z"}}, "Foo"},
		{"two namespaces", [][2]string{{errorType, "a#b#Foo"}}, "Foo"},
		{"white space", [][2]string{{errorType, " a# Foo : http://x"}}, "Foo"},
		{"empty", [][2]string{{errorType, ""}}, ""},
		{"namespace only", [][2]string{{errorType, "com.amazon#"}}, ""},
		{"address only", [][2]string{{errorType, ":http://x#Foo"}}, ""},
		{"repeated", [][2]string{{errorType, "Foo"}, {errorType, "Bar"}}, "Foo"},
		{"repeated, first empty", [][2]string{{errorType, " "}, {errorType, "Bar"}}, "Bar"},
		{"joined by a proxy", [][2]string{{errorType, "ns#Foo, ns#Bar"}}, "Foo"},
		{"address with a comma", [][2]string{{errorType, "ns#Foo:http://x/a,b"}}, "Foo"},
		{"256 bytes", [][2]string{{errorType, strings.Repeat("x", 256)}}, strings.Repeat("x", 256)},
		{"257 bytes", [][2]string{{errorType, strings.Repeat("x", 257)}}, ""},
		{"long address", [][2]string{{errorType, "Foo:http://" + strings.Repeat("x", 4096)}}, "Foo"},
		{"not printable", [][2]string{{errorType, "Foo\x00Bar"}}, ""},
		{"DEL", [][2]string{{errorType, "Foo\x7f"}}, ""},
		{"not ASCII", [][2]string{{errorType, "Fo\u00f6"}}, ""},
		{"query", [][2]string{{queryError, "AWS.SimpleQueueService.NonExistentQueue;Sender"}},
			"AWS.SimpleQueueService.NonExistentQueue"},
		{"query without type", [][2]string{{queryError, "RequestThrottled"}}, "RequestThrottled"},
		{"query before type", [][2]string{{errorType, "Foo"}, {queryError, "RequestThrottled;Sender"}},
			"RequestThrottled"},
		{"empty query", [][2]string{{errorType, "Foo"}, {queryError, ";Sender"}}, "Foo"},
		{"query repeated",
			[][2]string{{queryError, ";Sender"}, {queryError, "Foo;Sender"}, {queryError, "Bar;Sender"}}, "Foo"},
		{"query too long", [][2]string{{queryError, strings.Repeat("x", 257) + ";Sender"}, {errorType, "Foo"}}, "Foo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			for _, kv := range tt.header {
				h.Add(kv[0], kv[1])
			}
			if got := HeaderCode(h); got != tt.want {
				t.Errorf("HeaderCode = %q, want %q", got, tt.want)
			}
		})
	}
	if got := HeaderCode(nil); got != "" {
		t.Errorf("HeaderCode(nil) = %q", got)
	}
}

func TestHeaderCodeAllocs(t *testing.T) {
	tests := []struct {
		name   string
		header http.Header
	}{
		{"no code", http.Header{"Content-Type": {"application/json"}, "X-Amzn-Requestid": {"1"}, "Date": {"x"}}},
		{"type", http.Header{errorTypeHeader: {"ns#ThrottlingException:http://x"}}},
		{"query", http.Header{queryErrorHeader: {"RequestThrottled;Sender"}}},
	}
	for _, tt := range tests {
		if n := testing.AllocsPerRun(100, func() { HeaderCode(tt.header) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", tt.name, n)
		}
	}
}

func TestMayHoldCode(t *testing.T) {
	tests := []struct {
		name, value string
		want        bool
	}{
		{"Content-Type", "", true},
		{"Content-Type", "application/json", true},
		{"Content-Type", "application/x-amz-json-1.1", true},
		{"Content-Type", "application/xml; charset=utf-8", true},
		{"Content-Type", "application/cbor", true},
		{"Content-Type", "application/octet-stream", true},
		{"Content-Type", "text/html", true},
		{"Content-Type", "text/plain", true},
		{"Content-Type", "not a media type;;", true},
		{"Content-Type", "text/event-stream", false},
		{"Content-Type", "Text/Event-Stream; charset=utf-8", false},
		{"Content-Type", " application/vnd.amazon.eventstream ", false},
		{"Content-Type", "application/x-ndjson", false},
		{"Content-Type", "application/grpc", false},
		{"Content-Type", "application/grpc+proto", false},
		{"Content-Type", "application/grpc-web-text", false},
		{"Content-Type", "application/connect+json", false},
		{"Content-Type", "multipart/x-mixed-replace; boundary=x", false},
		{"Content-Type", "image/svg+xml", false},
		{"Content-Type", "audio/mpeg", false},
		{"Content-Type", "video/mp4", false},
		{"Content-Type", "font/woff2", false},
		{"Content-Encoding", "", true},
		{"Content-Encoding", "Identity", true},
		{"Content-Encoding", "identity, identity", true},
		{"Content-Encoding", "gzip", false},
		{"Content-Encoding", "identity, br", false},
		{"Content-Encoding", "aws-chunked", false},
		{"Transfer-Encoding", "chunked", true},
	}
	for _, tt := range tests {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			if got := MayHoldCode(http.Header{tt.name: {tt.value}}); got != tt.want {
				t.Errorf("MayHoldCode = %v, want %v", got, tt.want)
			}
		})
	}
	if !MayHoldCode(nil) {
		t.Error("no headers at all: want true")
	}
	if MayHoldCode(http.Header{"Content-Encoding": {"identity", "gzip"}}) {
		t.Error("a second Content-Encoding: want false")
	}
}

func BenchmarkBodyCode(b *testing.B) {
	for _, bb := range []struct {
		name   string
		header http.Header
		file   string
	}{
		{"JSON", jsonHeader, "json10_dynamodb.json"},
		{"XML", xmlHeader, "s3_slow_down.xml"},
		{"SOAP", xmlHeader, "soap11_server.xml"},
		{"CBOR", cborHeader, "cbor_throttling.hex"},
		{"HTML", htmlHeader, "html_bad_gateway.html"},
	} {
		body := readErrorBody(b, bb.file)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				BodyCode(bb.header, body)
			}
		})
	}
}

func BenchmarkHeaderCode(b *testing.B) {
	h := http.Header{"Content-Type": {"application/json"}, errorTypeHeader: {"ns#ThrottlingException:http://x"}}
	b.ReportAllocs()
	for b.Loop() {
		HeaderCode(h)
	}
}
