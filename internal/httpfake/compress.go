package httpfake

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
)

// Compressed returns the parts of a body in a coding: "gzip", "deflate", which is
// the zlib format, or "raw", which is deflate without that. Each part can be
// decompressed when it has arrived, as a server that flushes sends it.
func Compressed(coding string, parts ...string) []string {
	var out bytes.Buffer
	var zip interface {
		io.WriteCloser
		Flush() error
	}
	switch coding {
	case "gzip":
		zip = gzip.NewWriter(&out)
	case "deflate":
		zip = zlib.NewWriter(&out)
	case "raw":
		zip, _ = flate.NewWriter(&out, flate.DefaultCompression) // a level that there is
	default:
		panic(fmt.Sprintf("httpfake: coding %q", coding))
	}
	pieces := make([]string, len(parts))
	for i, part := range parts {
		_, err := io.WriteString(zip, part)
		err = errors.Join(err, zip.Flush())
		if i == len(parts)-1 {
			err = errors.Join(err, zip.Close())
		}
		if err != nil {
			panic(err)
		}
		pieces[i] = out.String()
		out.Reset()
	}
	return pieces
}

// ContentEncoding is the header of a body in a coding of Compressed, and of one
// as it is, "".
func ContentEncoding(coding string) string {
	if coding == "raw" {
		return "deflate"
	}
	return coding
}
