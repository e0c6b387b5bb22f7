package letters

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A file that was cut anywhere, or that goes on after its letter, is broken.
func TestOnlyWholeLettersAreRead(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"a body of known length": func(req *http.Request) { req.Header.Set("X", "y") },
		"a body with a trailer": func(req *http.Request) {
			req.ContentLength, req.Trailer = -1, http.Header{"X-Sum": {"1"}}
		},
		"no body": func(req *http.Request) { req.Body, req.ContentLength = nil, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			req := post(t, "https://a.example/", "hello")
			change(req)
			var b bytes.Buffer
			if err := writeLetter(&b, DeadLetter{Request: req}, time.Now()); err != nil {
				t.Fatal(err)
			}
			whole := b.Bytes()
			for n := range whole {
				if _, _, err := readLetter(bytes.NewReader(whole[:n]), int64(n)); err == nil {
					t.Errorf("%d of %d bytes are read as a letter:\n%s", n, len(whole), whole[:n])
				}
			}
			longer := append(whole, 'x')
			if _, _, err := readLetter(bytes.NewReader(longer), int64(len(longer))); err == nil {
				t.Errorf("a byte after the letter is accepted:\n%s", longer)
			}
		})
	}
}

func TestForeignLetters(t *testing.T) {
	const head = `{"time":"2025-01-02T03:04:05Z","method":"POST","url":"x","attempts":1,"reason":"permanent"}` + "\n"
	for name, text := range map[string]string{
		"nothing":           "",
		"not JSON":          "hello\n",
		"another JSON":      `{"a":1}` + "\nGET http://a/ HTTP/1.1\r\n\r\n",
		"an endless head":   strings.Repeat("x", 2*maxHead),
		"an endless header": head + "GET http://a/ HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", maxHead/4),
		"no request line":   head + "hello\r\n\r\n",
		"not HTTP":          head + "GET http://a/ SMTP\r\n\r\n",
		"no URL":            head + "GET http://a:b:c/ HTTP/1.1\r\n\r\n",
		"not a header":      head + "GET http://a/ HTTP/1.1\r\nhello\r\n\r\n",
		"Unix lines":        head + "GET http://a/ HTTP/1.1\nX: y\n\n",
		"a length twice":    head + "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a negative length": head + "POST http://a/ HTTP/1.1\r\nContent-Length: -1\r\n\r\nx",
		"a length and chunks": head +
			"POST http://a/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"another encoding": head + "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx",
		"broken chunks": head +
			"POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
		"a body without framing": head + "POST http://a/ HTTP/1.1\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := readLetter(strings.NewReader(text), int64(len(text))); err == nil {
				t.Error("no error")
			} else if strings.Contains(name, "endless") && !strings.Contains(err.Error(), "more than 1048576 bytes") {
				t.Errorf("got %v", err)
			} else if len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func FuzzReadLetter(f *testing.F) {
	req := post(f, "https://a.example/x?y", "hello")
	req.Header.Set("X", "y")
	for _, length := range []int64{5, -1} {
		req.ContentLength = length
		req.Body, _ = req.GetBody()
		var b bytes.Buffer
		if err := writeLetter(&b, DeadLetter{Request: req, Err: io.EOF}, time.Unix(1, 1)); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, req, err := readLetter(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		first, err := receive(req)
		if err != nil {
			t.Fatalf("a letter was read whose body fails: %v\n%q", err, text)
		}
		if req.Body == nil {
			return
		}
		req.Body, _ = req.GetBody()
		if second, err := receive(req); err != nil || first.Body != second.Body {
			t.Fatalf("%q then %q, %v", first.Body, second.Body, err)
		}
	})
}
