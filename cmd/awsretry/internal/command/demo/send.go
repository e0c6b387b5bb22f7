package demo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dustin/go-humanize/english"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/attempts"
	"example.com/awsretry/cmd/internal/term"
)

// A request of a scene.
type request struct {
	method, path string
	body         io.Reader
	length       int64
	shown        bool // with a table of its attempts
}

// An outcome is the outcome of a request.
type outcome struct {
	status   int // 0: no response
	attempts int
	elapsed  time.Duration
}

func (o outcome) String() string {
	status := "no response"
	if o.status != 0 {
		status = fmt.Sprintf("%d %s", o.status, http.StatusText(o.status))
	}
	return fmt.Sprintf("%s after %s, %s", status, english.Plural(o.attempts, "attempt", ""), term.Duration(o.elapsed))
}

// get sends a GET and shows its attempts.
func (d *demo) get(t *awsretry.Transport, path string) (outcome, error) {
	return d.send(t, request{method: http.MethodGet, path: path, shown: true})
}

func (d *demo) send(t *awsretry.Transport, r request) (outcome, error) {
	var o outcome
	table := d.attempts(t)
	ctx := awsretry.WithObserver(d.ctx, func(a awsretry.Attempt) {
		o.attempts = a.Number
		if r.shown {
			table.Row(a)
		}
	})
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+d.server.address+r.path, r.body)
	if err != nil {
		return o, err
	}
	if r.length != 0 {
		req.ContentLength = r.length
	}
	start := time.Now()
	client := http.Client{Transport: t}
	resp, err := client.Do(req)
	o.elapsed = time.Since(start)
	if d.ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return o, d.ctx.Err()
	}
	if r.shown {
		d.Say("")
	}
	var gaveUp *awsretry.Error
	if errors.As(err, &gaveUp) {
		return o, nil
	} else if err != nil {
		return o, err
	}
	defer resp.Body.Close()
	o.status = resp.StatusCode
	_, err = io.Copy(io.Discard, resp.Body)
	return o, err
}

func (d *demo) attempts(t *awsretry.Transport) *attempts.Table {
	return &attempts.Table{
		W:       d.Out,
		Palette: d.Palette,
		Width:   d.Table.Width,
		Indent:  "   ",
		State:   func() (awsretry.State, bool) { return t.State(d.server.address) },
	}
}
