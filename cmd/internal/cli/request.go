package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"example.com/awsretry/cmd/internal/files"
	"example.com/awsretry/internal/redact"
)

// RequestFlags describe a request.
type RequestFlags struct {
	Method  Word
	Headers []string
	Data    *string // nil: no body

	data string
}

// Register adds the flags to set. methods describes the default method.
func (f *RequestFlags) Register(set *pflag.FlagSet, methods string) {
	f.Method.Kind = "METHOD"
	set.VarP(&f.Method, "method", "X", "method of the request ("+methods+")")
	set.StringArrayVarP(&f.Headers, "header", "H", nil, "a header, `\"NAME: VALUE\"`; may be repeated")
	set.StringVarP(&f.data, "data", "d", "", "`BODY` of the request; @FILE reads a file, @- standard input")
}

// Parsed sets Data when the flags of set have been parsed.
func (f *RequestFlags) Parsed(set *pflag.FlagSet) {
	if set.Changed("data") {
		f.Data = &f.data
	}
}

// ParseURL parses the URL of the request. Its errors show neither user nor
// query.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		if strings.Contains(s, "@") { // err may quote a part of a password
			return nil, errors.New("URL cannot be read; " +
				"characters of a user and a password other than letters and digits must be percent-encoded")
		}
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		shown, _, _ := strings.Cut(s, "?")
		return nil, fmt.Errorf("URL %q cannot be read: %w", shown, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q must begin with http:// or https://", redact.URL(u))
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %q has no host", redact.URL(u))
	}
	return u, nil
}

// Make makes the request with the method, unless the flags have another.
func (f *RequestFlags) Make(ctx context.Context, u *url.URL, method string, stdin io.Reader) (*http.Request, error) {
	if f.Method.Value != "" {
		method = f.Method.Value
	}
	if !isToken(method) {
		return nil, fmt.Errorf("--method is %q; it must be a name such as GET or POST", method)
	}
	var literal io.Reader
	file, fromFile := "", false
	if f.Data != nil {
		if file, fromFile = strings.CutPrefix(*f.Data, "@"); !fromFile {
			literal = strings.NewReader(*f.Data)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), literal)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "awsretry/"+Version())
	if fromFile && file == "" {
		return nil, errors.New("--data: @ must be followed by the name of a file, or - for standard input")
	}
	if err := setHeaders(req, f.Headers); err != nil {
		return nil, err
	}
	if u.User != nil && req.Header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), password)
	}
	if fromFile {
		if err := setBody(ctx, req, file, stdin); err != nil {
			return nil, Failed(fmt.Errorf("--data: %w", err))
		}
	}
	return req, nil
}

func setHeaders(req *http.Request, headers []string) error {
	given := make(http.Header)
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !ok:
			word, _, _ := strings.Cut(header, " ") // what follows may be secret
			return fmt.Errorf("--header must read \"Name: value\"; %q has no such name", word)
		case !isToken(name):
			return fmt.Errorf("--header must read \"Name: value\"; %q has no such name", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return fmt.Errorf("--header %s has a control character in its value", name)
		case strings.EqualFold(name, "Host") && !isHost(value):
			return fmt.Errorf("--header Host is %q; it must be a host, or a host and a port", value)
		case strings.EqualFold(name, "Host"):
			req.Host = value
		case strings.EqualFold(name, "Content-Length"), strings.EqualFold(name, "Transfer-Encoding"):
			return fmt.Errorf("--header %s cannot be set; it follows from --data", name)
		default:
			given.Add(name, value)
		}
	}
	for name, values := range given { // all values of a name are sent, and not the default
		req.Header[name] = values
	}
	return nil
}

// isHost reports whether s is the host of a URL, as net/http can send it.
func isHost(s string) bool {
	u, err := url.Parse("http://" + s)
	return err == nil && u.Host == s && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	const punctuation = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' ||
			strings.ContainsRune(punctuation, r))
	})
}

// setBody makes the named file the body of the request, - for standard input. A
// file is read in place, so that a retry can send it again whatever its size.
// Of other standard input, the Transport buffers a limited amount for retries.
func setBody(ctx context.Context, req *http.Request, name string, stdin io.Reader) error {
	if name == "-" {
		if f, ok := stdin.(*os.File); ok {
			return setFile(ctx, req, f)
		}
		setStream(ctx, req, io.NopCloser(stdin))
		return nil
	}
	f, err := files.OpenContext(ctx, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	if err := setFile(ctx, req, f); err != nil {
		f.Close()
		return err
	}
	return nil
}

// setFile makes f the body, from its current offset on. The request closes it.
func setFile(ctx context.Context, req *http.Request, f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", f.Name())
	case !info.Mode().IsRegular():
		setStream(ctx, req, f)
		return nil
	}
	offset, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	req.Body, req.ContentLength = f, info.Size()-offset
	if req.ContentLength <= 0 { // with a body, 0 would mean an unknown length
		f.Close()
		req.Body, req.ContentLength = http.NoBody, 0
	}
	return nil
}

// setStream makes the body a stream that can be read once. A Read that blocks
// ends with ctx.
func setStream(ctx context.Context, req *http.Request, stream io.ReadCloser) {
	req.Body, req.ContentLength = struct {
		io.Reader
		io.Closer
	}{files.NewReader(ctx, stream), stream}, -1
}
