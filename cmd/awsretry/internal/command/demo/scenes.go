package demo

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// savedRequest shows a request that succeeds after two failures.
func (d *demo) savedRequest() error {
	d.scene("Retries save a request", "The server resets the connection, responds with 503, and then works.")
	o, err := d.get(d.transport(), "/flaky")
	if err != nil {
		return err
	}
	seen := d.server.requests("/flaky")
	d.check(o.status == http.StatusOK && o.attempts == 3 && seen == 3,
		fmt.Sprintf("%v; the server saw %s", o, english.Plural(seen, "request", "")))
	return nil
}

// badRequest shows that the error code decides, not only the status.
func (d *demo) badRequest() error {
	d.scene("A bad request is not retried",
		"Two requests get a response 400: one is wrong, the other was only one too many at the moment.")
	for i, c := range []struct {
		path             string
		status, attempts int
	}{
		{"/invalid", http.StatusBadRequest, 1},
		{"/busy", http.StatusOK, 2},
	} {
		if i > 0 {
			d.Say("")
		}
		o, err := d.get(d.transport(), c.path)
		if err != nil {
			return err
		}
		seen := d.server.requests(c.path)
		d.check(o.status == c.status && o.attempts == c.attempts && seen == c.attempts,
			fmt.Sprintf("%v; the server saw %s", o, english.Plural(seen, "request", "")))
	}
	return nil
}

// replayedBody shows that a retry sends the bytes of the first attempt.
func (d *demo) replayedBody() error {
	const fileSize, streamSize = 4 << 20, 256 << 10
	d.scene("A body is sent again",
		"A file is uploaded, and the server resets the connection on the way. Then a stream that can be read only\n"+
			"once, which the server reads whole before it responds with 503.")
	content := make([]byte, fileSize)
	rand.Read(content)
	file, err := os.CreateTemp("", "awsretry-demo-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := d.replay("/upload", file, "the file", content); err != nil {
		return err
	}
	d.Say("")
	content = content[:streamSize]
	return d.replay("/stream", struct{ io.Reader }{bytes.NewReader(content)}, "the stream", content)
}

func (d *demo) replay(path string, body io.Reader, name string, content []byte) error {
	before := len(d.server.received())
	o, err := d.send(d.transport(), request{http.MethodPut, path, body, int64(len(content)), true})
	if err != nil {
		return err
	}
	received := d.server.received()[before:]
	want := sha256.Sum256(content)
	const row = "   %-17s %10s bytes  SHA-256 %x…%s"
	d.row(row, name, humanize.Comma(int64(len(content))), want[:6], "")
	same := 0
	for i, u := range received {
		note := ""
		if u.cut {
			note = d.Palette.Faint("  then the reset")
		}
		d.row(row, fmt.Sprintf("attempt %d brought", i+1), humanize.Comma(u.size), u.sum[:6], note)
		if u.sum == want {
			same++
		}
	}
	d.check(o.status == http.StatusCreated && o.attempts == 2 && len(received) == 2 && received[1].sum == want,
		fmt.Sprintf("%v; %d of %d brought %s whole, byte for byte", o, same, len(received), name))
	return nil
}
