package awsretry

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
	// maxErrorBody is how many bytes of a body are held at most to find an error code in it.
	maxErrorBody = 64 << 10

	// maxCodeLen is the length in bytes of the longest value that is taken for an error code;
	// the codes of AWS stay well under a hundred.
	maxCodeLen = 256
)

// The names are canonical, so that looking them up in a header allocates nothing.
const (
	queryErrorHeader = "X-Amzn-Query-Error"
	errorTypeHeader  = "X-Amzn-Errortype"
	protocolHeader   = "Smithy-Protocol"
)

// headerCode is the AWS error code in the headers of an answer, "" where there is none.
// X-Amzn-Query-Error, which reads CODE;TYPE, is what a service that once spoke the query protocol
// sends for clients that know its old codes; it goes before X-Amzn-ErrorType.
// Of a repeated header the first value that can be a code counts.
func headerCode(h http.Header) string {
	for _, v := range h[queryErrorHeader] {
		if code := headerValueCode(v); code != "" {
			return code
		}
	}
	for _, v := range h[errorTypeHeader] {
		if code := headerValueCode(v); code != "" {
			return code
		}
	}
	return ""
}

// headerValueCode is the code in one header line, in front of a URL, of the ;TYPE of X-Amzn-Query-Error, and of what a proxy
// joined to it with a comma.
func headerValueCode(v string) string {
	if i := strings.IndexAny(v, ":,;"); i >= 0 {
		v = v[:i]
	}
	return shapeCode(v)
}

// mayHoldCode says whether a body with these headers is worth reading for a code. Streams are not,
// since reading one for a code could wait for as long as the stream is open, nor is what a parser here
// could not read anyway: media files and compressed bodies.
func mayHoldCode(h http.Header) bool {
	for _, v := range h["Content-Encoding"] {
		for coding := range strings.SplitSeq(v, ",") {
			coding = strings.TrimSpace(coding)
			if coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
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

// mediaType is the Content-Type without its parameters, in small letters.
func mediaType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// bodyCode is the AWS error code in what is held of an answer's body, "" where there is none.
// The body may be cut off or broken behind the code. CBOR is known by the headers; JSON and XML are told
// apart by the first byte, because services and the proxies before them mislabel their errors.
// The result shares no memory with held.
func bodyCode(h http.Header, held []byte) string {
	if isCBOR(h) && len(held) > 0 && held[0]>>5 == cborMap {
		return strings.Clone(cborCode(held))
	}
	held = bytes.TrimPrefix(held, []byte("\ufeff"))
	held = bytes.TrimLeft(held, " \t\r\n")
	switch {
	case len(held) == 0:
		return ""
	case held[0] == '{':
		// A token of JSON may be as long as the body, and the code a short piece of it.
		return strings.Clone(cmp.Or(jsonCodes(held)))
	case held[0] == '<':
		return xmlCode(held)
	}
	return ""
}

func isCBOR(h http.Header) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get(protocolHeader)), "rpc-v2-cbor") || mediaType(h) == "application/cbor"
}

// jsonCodes are the codes in the members __type and code of a JSON object, whatever their letter case.
// It stops at the first __type, which goes before code wherever the two stand.
// It reads token by token, so that a body that ends in the middle still gives what stood whole before.
func jsonCodes(body []byte) (typ, code string) {
	if typ = leadingType(body); typ != "" {
		return typ, ""
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // a number too big for a float64 is not an error then
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

// leadingType is the code of a body that begins as most of the AWS JSON protocols' do, "" where it has to be parsed. It
// spares them the decoder, which takes longer than all the rest of a retry.
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

// skipNested reads to the end of the object or array whose opening token was just read.
// It counts instead of recursing: the depth is the sender's to choose.
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

// codePaths are the places of an error code in the XML protocols: query, S3, EC2 and SimpleDB,
// SOAP 1.1 and SOAP 1.2.
var codePaths = [...][]string{
	{"ErrorResponse", "Error", "Code"},
	{"Error", "Code"},
	{"Response", "Errors", "Error", "Code"},
	{"Envelope", "Body", "Fault", "faultcode"},
	{"Envelope", "Body", "Fault", "Code", "Value"},
}

const maxCodePath = 5

// xmlCode is the text of the first element on one of codePaths, in any namespace.
// The decoder reads no entity definitions, so none can expand: a reference to one ends the reading.
func xmlCode(body []byte) string {
	dec := xml.NewDecoder(bytes.NewReader(body))
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return asciiReader{in}, nil }
	var (
		path  = make([]string, 0, maxCodePath) // names of the open elements, the outermost maxCodePath of them
		depth int
		text  []byte // of the code element that is open
		open  bool   // the innermost element is a code element
	)
	for {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth == 0 && !slices.ContainsFunc(codePaths[:], func(p []string) bool { return p[0] == t.Name.Local }) {
				return "" // a web page, most often
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
			open = false // an element that holds elements is not a code
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

// asciiReader lets a document in another charset than UTF-8 through the XML decoder, which refuses bytes
// that are not UTF-8. Codes are ASCII; every other byte becomes DEL, which no code may hold.
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

// cborMode bounds what one item may make the decoder do. Errors of AWS nest a few levels.
var cborMode = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		MaxNestedLevels:  32,
		MaxArrayElements: maxErrorBody,
		MaxMapPairs:      maxErrorBody,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// cborCode is the code in the member __type of a CBOR map; of several the first that can be a code counts.
// The map is taken apart pair by pair, since the decoder refuses a map that is cut off as a whole.
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

// cborString is the text of an item, "" for an item of another type.
func cborString(item cbor.RawMessage) string {
	var s string
	if err := cborMode.Unmarshal(item, &s); err != nil {
		return ""
	}
	return s
}

// cborMap is the major type of a map (RFC 8949, section 3.1).
const cborMap = 5

// cborMapHead reads the head of a map: the number of pairs, and what follows the head. A map of indefinite length
// gets the largest number: the break that ends it is no item, so the pairs end there anyway.
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

// beforeColon cuts the documentation address off that some services put behind the code.
func beforeColon(s string) string {
	s, _, _ = strings.Cut(s, ":")
	return s
}

// shapeCode is the code in the name of a shape, which may have its namespace before a #.
func shapeCode(s string) string {
	return plainCode(s[strings.LastIndexByte(s, '#')+1:])
}

// plainCode is s without the white space around it, or "" where that cannot be a code.
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
