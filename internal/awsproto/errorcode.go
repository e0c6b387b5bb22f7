// Package awsproto reads and writes what the AWS protocols define for retries:
// error codes in headers and bodies, retry headers, and the operations that have
// their own rules.
package awsproto

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

const (
	// MaxErrorBody is how many bytes of a body are searched for an error code.
	MaxErrorBody = 64 << 10

	// maxCodeLen is the length in bytes of the longest error code. Those of AWS
	// stay well under a hundred.
	maxCodeLen = 256
)

// The names are canonical, so that a lookup in a header allocates nothing.
const (
	queryErrorHeader = "X-Amzn-Query-Error"
	errorTypeHeader  = "X-Amzn-Errortype"
	protocolHeader   = "Smithy-Protocol"
)

// HeaderCode returns the AWS error code in the headers of a response, or "" if
// there is none. X-Amzn-Query-Error, which reads CODE;TYPE, takes precedence
// over X-Amzn-ErrorType: a service that once used the query protocol sends it
// for clients that know its old codes. Of a repeated header the first value
// that can be a code counts.
func HeaderCode(h http.Header) string {
	for _, name := range [...]string{queryErrorHeader, errorTypeHeader} {
		for _, v := range h[name] {
			if code := headerValueCode(v); code != "" {
				return code
			}
		}
	}
	return ""
}

// headerValueCode returns the code in one header value. A URL, the ;TYPE of
// X-Amzn-Query-Error, or a second value that a proxy joined with a comma may
// follow it.
func headerValueCode(v string) string {
	if i := strings.IndexAny(v, ":,;"); i >= 0 {
		v = v[:i]
	}
	return shapeCode(v)
}

// MayHoldCode reports whether a body with these headers is worth reading for a
// code. A stream is not, because reading it could take as long as the stream is
// open. A media file is not, because BodyCode cannot parse it.
func MayHoldCode(h http.Header) bool {
	switch t := mediaType(h); t {
	case "text/event-stream", "application/vnd.amazon.eventstream", "application/x-ndjson":
		return false
	default:
		return !slices.ContainsFunc([]string{
			"application/grpc", "application/connect+", "multipart/",
			"image/", "audio/", "video/", "font/",
		}, func(prefix string) bool { return strings.HasPrefix(t, prefix) })
	}
}

// mediaType returns the Content-Type without its parameters, in lower case.
func mediaType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// BodyCode returns the AWS error code at the beginning of a response body, or ""
// if there is none. The body may be cut off or broken after the code. CBOR is
// recognized by the headers. JSON and XML are recognized by their first byte,
// because services, and proxies between, mislabel their errors. The result
// shares no memory with body.
func BodyCode(h http.Header, body []byte) string {
	if isCBOR(h) && len(body) > 0 && body[0]>>5 == cborMap {
		return strings.Clone(cborCode(body))
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	body = bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(body) == 0:
		return ""
	case body[0] == '{':
		// A JSON token may be as long as the body and hold a short code.
		return strings.Clone(cmp.Or(jsonCodes(body)))
	case body[0] == '<':
		return xmlCode(body)
	}
	return ""
}

func isCBOR(h http.Header) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get(protocolHeader)), "rpc-v2-cbor") ||
		slices.Contains([]string{"application/cbor", "application/x-amz-cbor-1.1"}, mediaType(h))
}

// jsonCodes returns the codes in the members __type and code of a JSON object,
// in any letter case. It stops at the first __type, which takes precedence over
// a code before or after it. It reads token by token, so that a body that is
// cut off still yields what was complete before the cut.
func jsonCodes(body []byte) (typ, code string) {
	if typ = leadingType(body); typ != "" {
		return typ, ""
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // so that a number too big for a float64 is not an error
	if _, err := dec.Token(); err != nil {
		return "", ""
	}
	for {
		key, err := dec.Token()
		name, ok := key.(string)
		if err != nil || !ok { // ok is false at the closing brace
			return "", code
		}
		value, err := dec.Token()
		if err != nil {
			return "", code
		}
		switch v := value.(type) {
		case json.Delim:
			if !skipNested(dec) {
				return "", code
			}
		case string:
			switch {
			case strings.EqualFold(name, "__type"):
				if typ = shapeCode(beforeColon(v)); typ != "" {
					return typ, code
				}
			case code == "" && strings.EqualFold(name, "code"):
				code = shapeCode(beforeColon(v))
			}
		}
	}
}

// leadingType returns the code of a body that starts with __type, as most bodies of
// the AWS JSON protocols do, and "" for any other. It avoids the decoder, which
// takes longer than the rest of a retry.
func leadingType(body []byte) string {
	rest, ok := bytes.CutPrefix(body, []byte(`{"__type":"`))
	if !ok {
		return ""
	}
	for i, c := range rest {
		switch {
		case c == '"':
			return shapeCode(beforeColon(string(rest[:i])))
		case c == '\\' || c < ' ':
			return ""
		}
	}
	return ""
}

// skipNested reads to the end of the object or array whose opening token was
// just read. It counts instead of recursing, since the sender chooses the
// depth.
func skipNested(dec *json.Decoder) bool {
	for depth := 1; depth > 0; {
		t, err := dec.Token()
		if err != nil {
			return false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return true
}

// codePaths are where the XML protocols put the error code: the query protocol,
// S3, EC2 and SimpleDB, SOAP 1.1, SOAP 1.2.
var codePaths = [...][]string{
	{"ErrorResponse", "Error", "Code"},
	{"Error", "Code"},
	{"Response", "Errors", "Error", "Code"},
	{"Envelope", "Body", "Fault", "faultcode"},
	{"Envelope", "Body", "Fault", "Code", "Value"},
}

const maxCodePath = 5

// xmlCode returns the text of the first element at one of codePaths, in any
// namespace. The decoder reads no entity definitions, so none can expand: a
// reference to one ends the reading.
func xmlCode(body []byte) string {
	dec := xml.NewDecoder(bytes.NewReader(body))
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return asciiReader{in}, nil }
	var (
		path  = make([]string, 0, maxCodePath) // the outermost open elements
		depth int
		text  []byte // of the open code element
		open  bool   // the innermost open element is a code element
	)
	for {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth == 0 && !slices.ContainsFunc(codePaths[:], func(p []string) bool { return p[0] == t.Name.Local }) {
				return "" // usually a web page
			}
			depth++
			if depth <= maxCodePath {
				path = append(path, t.Name.Local)
			}
			open = depth <= maxCodePath && isCodePath(path)
			text = text[:0]
		case xml.CharData:
			if open {
				text = append(text, t...)
			}
		case xml.EndElement:
			if open {
				code := string(text)
				if path[0] == "Envelope" {
					code = code[strings.LastIndexByte(code, ':')+1:] // the value is a qualified name
				}
				if code = plainCode(code); code != "" {
					return strings.Clone(code)
				}
			}
			open = false // a code element has no children
			if depth <= maxCodePath {
				path = path[:depth-1]
			}
			if depth--; depth == 0 {
				return ""
			}
		}
	}
}

func isCodePath(path []string) bool {
	return slices.ContainsFunc(codePaths[:], func(p []string) bool { return slices.Equal(p, path) })
}

// An asciiReader makes a document in any charset acceptable to the XML decoder,
// which rejects bytes that are not UTF-8. It replaces every byte that is not ASCII
// with DEL, which no code contains.
type asciiReader struct{ io.Reader }

func (r asciiReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for i, c := range p[:n] {
		if c >= 0x80 {
			p[i] = 0x7f
		}
	}
	return n, err
}

// cborMode limits the work that one item can cause. AWS errors nest a few
// levels.
var cborMode = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		MaxNestedLevels:  32,
		MaxArrayElements: MaxErrorBody,
		MaxMapPairs:      MaxErrorBody,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// cborCode returns the code in the member __type of a CBOR map, the first that can
// be a code if there are several. It decodes pair by pair, since the decoder
// rejects a map that is cut off.
func cborCode(body []byte) string {
	pairs, rest, ok := cborMapHead(body)
	if !ok {
		return ""
	}
	for ; pairs > 0; pairs-- {
		var key, value cbor.RawMessage
		var err error
		if rest, err = cborMode.UnmarshalFirst(rest, &key); err != nil {
			return ""
		}
		if rest, err = cborMode.UnmarshalFirst(rest, &value); err != nil {
			return ""
		}
		if cborString(key) == "__type" {
			if code := shapeCode(beforeColon(cborString(value))); code != "" {
				return code
			}
		}
	}
	return ""
}

// cborString returns the text of a text item, or "" for any other item.
func cborString(item cbor.RawMessage) string {
	var s string
	if err := cborMode.Unmarshal(item, &s); err != nil {
		return ""
	}
	return s
}

// cborMap is the major type of a map (RFC 8949, section 3.1).
const cborMap = 5

// cborMapHead reads the head of a map. It returns the number of pairs, and what
// follows the head. For a map of indefinite length the number is the largest
// possible: decoding the break at its end fails, which ends the pairs.
func cborMapHead(body []byte) (pairs uint64, rest []byte, ok bool) {
	info, rest := body[0]&0x1f, body[1:]
	switch {
	case info < 24:
		return uint64(info), rest, true
	case info == 31:
		return math.MaxUint64, rest, true
	case info > 27:
		return 0, nil, false
	}
	size := 1 << (info - 24) // bytes of the number
	if len(rest) < size {
		return 0, nil, false
	}
	var count [8]byte
	copy(count[8-size:], rest)
	return binary.BigEndian.Uint64(count[:]), rest[size:], true
}

// beforeColon cuts off the documentation URL that some services append to the
// code.
func beforeColon(s string) string {
	s, _, _ = strings.Cut(s, ":")
	return s
}

// shapeCode returns the code in the name of a shape, which may start with a
// namespace and a #.
func shapeCode(s string) string {
	return plainCode(s[strings.LastIndexByte(s, '#')+1:])
}

// plainCode returns s without surrounding white space, or "" if that cannot be a
// code.
func plainCode(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxCodeLen {
		return ""
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return ""
		}
	}
	return s
}
