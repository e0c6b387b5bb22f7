// Package chromium tests pages in a Chromium without a window.
package chromium

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A Browser is a Chromium with one page. It speaks the Chrome DevTools Protocol
// over a pipe: JSON objects that end with a zero byte.
type Browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	session string // of the page
	last    int
	events  []reply // of the page
}

// A reply is an answer to a command, or an event.
type reply struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Start starts Chromium with an empty page. It skips the test if there is none.
// Chromium ends with the test.
func Start(t *testing.T) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is not in PATH")
		}
		t.Skip("SKIPPED: chromium is not in PATH")
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	commands, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The time only bounds a test that hangs.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
		"--force-device-scale-factor=1", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{commands, answers} // 3 and 4
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	answers.Close()
	b := &Browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = b.try(nil, "Browser.close", nil)
		_ = cmd.Wait()
		cancel()
		in.Close()
		out.Close()
		_ = os.RemoveAll(profile) // a process of Chromium's may still write into it
	})
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.Command(&targets, "Target.getTargets", nil)
	for _, target := range targets.TargetInfos {
		if target.Type == "page" {
			var attached struct{ SessionID string }
			b.Command(&attached, "Target.attachToTarget", Values{"targetId": target.TargetID, "flatten": true})
			b.session = attached.SessionID
		}
	}
	if b.session == "" {
		t.Fatalf("no page: %+v", targets)
	}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Command(nil, domain+".enable", nil)
	}
	return b
}

// Values are the parameters of a command.
type Values map[string]any

var errGone = errors.New("the browser has ended")

// Command sends a command and decodes the answer into result, unless that is
// nil.
func (b *Browser) Command(result any, method string, params Values) {
	b.t.Helper()
	if err := b.try(result, method, params); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// try is Command with its error. It keeps the events that come before the
// answer.
func (b *Browser) try(result any, method string, params Values) error {
	if params == nil {
		params = Values{}
	}
	b.last++
	request := Values{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return errGone
	}
	for {
		text, err := b.out.ReadString(0)
		if err != nil {
			return errGone
		}
		var r reply
		if err := json.Unmarshal([]byte(strings.TrimSuffix(text, "\x00")), &r); err != nil {
			return err
		}
		switch {
		case r.Method != "":
			b.events = append(b.events, r)
		case r.ID != b.last:
		case r.Error != nil:
			return errors.New(r.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(r.Result, result)
		}
	}
}

// Eval evaluates an expression in the page, waits for it if it is a promise, and
// decodes its value.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	var r struct {
		Result           struct{ Value T }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.Command(&r, "Runtime.evaluate", Values{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	})
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value
}

// Holds reports whether an expression is true in the page. While the browser goes
// from one page to another, it is not.
func (b *Browser) Holds(expression string) bool {
	var r struct{ Result struct{ Value any } }
	err := b.try(&r, "Runtime.evaluate", Values{"expression": expression, "returnByValue": true})
	if errors.Is(err, errGone) {
		b.t.Fatal(err)
	}
	return err == nil && r.Result.Value == true
}

// Heard returns the events with a method so far.
func (b *Browser) Heard(method string) []string {
	Eval[int](b, "1") // reads what the browser has said
	var all []string
	for _, e := range b.events {
		if e.Method == method {
			all = append(all, string(e.Params))
		}
	}
	return all
}

// Window sets the size of the window.
func (b *Browser) Window(width, height int) {
	b.Command(nil, "Emulation.setDeviceMetricsOverride", Values{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	})
}

// Scheme sets whether the system is light or dark.
func (b *Browser) Scheme(name string) {
	b.Command(nil, "Emulation.setEmulatedMedia", Values{
		"features": []Values{{"name": "prefers-color-scheme", "value": name}},
	})
}

// Picture returns the upper left part of the page as a PNG, also what is outside
// the window.
func (b *Browser) Picture(width, height int) []byte {
	b.t.Helper()
	var taken struct{ Data []byte }
	b.Command(&taken, "Page.captureScreenshot", Values{
		"format": "png", "captureBeyondViewport": true,
		"clip": Values{"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
	})
	return taken.Data
}

// Eventually waits until a condition is true. The number of tries only bounds a
// test that fails.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 600 {
		if condition() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not so: %s", what)
}
