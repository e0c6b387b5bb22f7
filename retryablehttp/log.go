package retryablehttp

import (
	"fmt"
	"net/http"
	"reflect"
	"time"
)

// Logger logs lines, as a log.Logger does.
type Logger interface {
	Printf(string, ...any)
}

// LeveledLogger logs messages with keys and values, as an hclog.Logger does. If it
// is a Logger too, it is used as a LeveledLogger.
type LeveledLogger interface {
	Error(msg string, keysAndValues ...any)
	Info(msg string, keysAndValues ...any)
	Debug(msg string, keysAndValues ...any)
	Warn(msg string, keysAndValues ...any)
}

// RequestLogHook is called before each attempt, with Client.Logger, the request,
// and the number of the retry, 0 for the first attempt. What it changes in the
// headers is sent. The Logger is nil if Client.Logger is; if that is a
// LeveledLogger, its Printf logs with Info.
type RequestLogHook func(Logger, *http.Request, int)

// ResponseLogHook is called with Client.Logger and the response of each attempt,
// also of those that are followed by another. If it reads or closes the body, that
// is what Do returns.
type ResponseLogHook func(Logger, *http.Response)

// A logger is Client.Logger.
type logger struct {
	plain   Logger
	leveled LeveledLogger
}

func (c *Client) logger() (logger, error) {
	if v := reflect.ValueOf(c.Logger); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return logger{}, nil
	}
	switch l := c.Logger.(type) {
	case LeveledLogger:
		return logger{leveled: l}, nil
	case Logger:
		return logger{plain: l}, nil
	}
	return logger{}, fmt.Errorf("retryablehttp: Client.Logger is a %T; it must be a Logger or a LeveledLogger", c.Logger)
}

// hook returns the Logger for the hooks.
func (l logger) hook() Logger {
	switch {
	case l.plain != nil:
		return l.plain
	case l.leveled != nil:
		return leveledHook{l.leveled}
	}
	return nil
}

type leveledHook struct{ LeveledLogger }

func (h leveledHook) Printf(format string, values ...any) { h.Info(fmt.Sprintf(format, values...)) }

func (l logger) sending(c *call) {
	switch address := redacted(c.req.URL); {
	case l.leveled != nil:
		l.leveled.Debug("performing request", "method", c.req.Method, "url", address)
	case l.plain != nil:
		l.plain.Printf("[DEBUG] %s %s", c.req.Method, address)
	}
}

func (l logger) failed(c *call, err error) {
	switch address := redacted(c.req.URL); {
	case l.leveled != nil:
		l.leveled.Error("request failed", "error", textOf(err), "method", c.req.Method, "url", address)
	case l.plain != nil:
		l.plain.Printf("[ERR] %s %s request failed: %s", c.req.Method, address, textOf(err))
	}
}

func (l logger) retrying(c *call, delay time.Duration) {
	request := fmt.Sprintf("%s %s", c.req.Method, redacted(c.req.URL))
	if c.last.resp != nil {
		request += fmt.Sprintf(" (status: %d)", c.last.resp.StatusCode)
	}
	left := max(c.RetryMax, 0) + 1 - c.attempts
	switch {
	case l.leveled != nil:
		l.leveled.Debug("retrying request", "request", request, "timeout", delay, "remaining", left)
	case l.plain != nil:
		l.plain.Printf("[DEBUG] %s: retrying in %s (%d left)", request, delay, left)
	}
}
