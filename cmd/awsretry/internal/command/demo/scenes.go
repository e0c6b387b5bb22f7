package demo

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"example.com/awsretry"
)

// savedRequest shows a request that succeeds after two failures.
func (d *demo) savedRequest() {
	d.scene("Retries save a request", "The server closes the connection, responds with 503, and then works.")
	d.get("/flaky", http.StatusOK, 3)
}

// badRequest shows that the error code decides, not only the status.
func (d *demo) badRequest() {
	d.scene("A bad request is not retried",
		"Two requests get a response 400: one is wrong, the other was only one too many at the moment.")
	d.get("/invalid", http.StatusBadRequest, 1)
	d.say("")
	d.get("/busy", http.StatusOK, 2)
}

// get shows a GET, and checks how it ends and how many requests the server has seen.
func (d *demo) get(path string, status, attempts int) {
	o := d.show(d.transport(), d.request(http.MethodGet, path, nil, 0))
	seen := len(d.server.uploads(path))
	d.check(o.status == status && o.attempts == attempts && seen == attempts,
		"%v; the server saw %s", o, english.Plural(seen, "request", ""))
}

// replayedBody shows that a retry sends the bytes of the first attempt.
func (d *demo) replayedBody() {
	const fileSize, streamSize = 4 << 20, 256 << 10
	d.scene("A body is sent again",
		"A file is uploaded, and the server closes the connection on the way. Then a stream that can be read only\n"+
			"once, which the server reads whole before it responds with 503.")
	content := make([]byte, fileSize)
	rand.Read(content)
	file, err := os.CreateTemp("", "awsretry-demo-")
	if err == nil {
		defer os.Remove(file.Name())
		defer file.Close()
		_, err = file.WriteAt(content, 0)
	}
	if err != nil {
		d.end(err)
		return
	}
	d.upload("/upload", file, "the file", content)
	d.say("")
	d.upload("/stream", struct{ io.Reader }{bytes.NewReader(content[:streamSize])}, "the stream", content[:streamSize])
}

// upload shows an upload, and checks the bytes that the server has received.
func (d *demo) upload(path string, body io.Reader, name string, content []byte) {
	o := d.show(d.transport(), d.request(http.MethodPut, path, body, len(content)))
	want, uploads, same := sha256.Sum256(content), d.server.uploads(path), 0
	const row = "%-17s %10s bytes  SHA-256 %x…%s"
	d.row(row, name, humanize.Comma(int64(len(content))), want[:6], "")
	for i, u := range uploads {
		note := ""
		if u.size < int64(len(content)) {
			note = d.palette.Faint("  then it closed")
		}
		d.row(row, fmt.Sprintf("attempt %d brought", i+1), humanize.Comma(u.size), u.sum[:6], note)
		if u.sum == want {
			same++
		}
	}
	d.check(o.status == http.StatusCreated && o.attempts == 2 && len(uploads) == 2 && uploads[1].sum == want,
		"%v; %d of %d brought %s whole, byte for byte", o, same, len(uploads), name)
}

// outage shows the retry token bucket: it runs dry, so that retries do not add
// to an outage, and fills up again.
func (d *demo) outage() {
	d.scene("The retry token bucket in an outage",
		"The server responds to everything with 500, and later works again. A retry costs 5 tokens; a request that\n"+
			"succeeds at once puts 1 back.")
	t := d.transport()
	t.Backoff = awsretry.Exponential{Initial: 2 * time.Millisecond, Max: 4 * time.Millisecond}
	d.row("%s", d.palette.Faint("SERVER     REQUESTS   FAILED  RETRIES  TOKENS"))
	d.orders(t, 1, false)
	during := d.orders(t, 3, true)
	after := d.orders(t, 3, false)
	d.say("")
	d.check(during.failed == during.requests && during.last == 0 && during.tokens < 5 && during.retries == 100,
		"in the outage %s led to %s, and the last %d of them to %s", english.Plural(during.requests, "request", ""),
		english.Plural(during.retries, "retry", ""), batch, english.Plural(during.last, "retry", ""))
	d.check(after.failed == 0 && after.tokens == during.tokens+after.requests, "then %s put %s back",
		english.Plural(after.requests-after.failed, "success", ""), english.Plural(after.tokens-during.tokens, "token", ""))

	d.say("\n   One more failure, with tokens to pay for retries:\n")
	d.server.down.Store(true)
	o := d.show(t, d.request(http.MethodGet, "/orders", nil, 0))
	d.check(o.attempts == 3 && o.status == http.StatusInternalServerError,
		"%v: %s made", o, english.Plural(o.attempts-1, "retry", ""))
}

const batch = 40 // requests to /orders

// orders is the outcome of batches of requests; last has the retries of the last one.
type orders struct{ requests, failed, retries, last, tokens int }

// orders sends batches of requests and prints a line about each.
func (d *demo) orders(t *awsretry.Transport, batches int, down bool) (sum orders) {
	d.server.down.Store(down)
	server := d.palette.Good("works    ")
	if down {
		server = d.palette.Bad("is down  ")
	}
	for range batches {
		failed, retries := 0, 0
		for range batch {
			o := d.send(d.ctx, t, d.request(http.MethodGet, "/orders", nil, 0))
			if o.status != http.StatusOK {
				failed++
			}
			retries += o.attempts - 1
		}
		state, _ := t.State(d.server.address)
		d.row("%s  %8d  %7d  %7d  %6d  %s", server, batch, failed, retries, state.Tokens,
			bar("█", float64(state.Tokens)/float64(max(state.Capacity, 1)), 1))
		sum = orders{sum.requests + batch, sum.failed + failed, sum.retries + retries, retries, state.Tokens}
	}
	return sum
}

// bar draws a part of a bar of 25 characters. A part larger than most ends in
// an ellipsis.
func bar(fill string, part, most float64) string {
	if part > most {
		return strings.Repeat(fill, int(most*25)) + "…"
	}
	return strings.Repeat(fill, int(max(part, 0)*25+0.5))
}
