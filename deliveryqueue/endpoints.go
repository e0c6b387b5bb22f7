package deliveryqueue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/internal/redact"
	"github.com/riverqueue/river/rivertype"
)

// An Endpoint is what the deliveries of an Options.Endpoint are sent to or, without
// one, an origin: a scheme, a host and a port.
type Endpoint struct {
	URL                    string // such as https://example.com; with the port unless it is the scheme's default; or the name
	Waiting, Running, Dead int    // deliveries

	Due      time.Time // since when an attempt of a delivery has been due; zero: none is
	Failing  time.Time // since when every attempt has failed; zero: the last one succeeded
	Disabled time.Time // since when only probes are sent, because of Config.DisableAfter; zero: it is not disabled
	Paused   time.Time // since when no attempt is made, because of Pause; zero: it is not paused

	PerSecond int // attempts that the throttle allows, by SetThrottle or a policy; 0: any number

	// Next is when the next attempt may begin, by a Retry-After, the throttle or
	// the next probe. The zero time, or one in the past: at any time.
	Next time.Time
}

// Endpoints returns the endpoints that have deliveries waiting, running or dead,
// and those that are failing, disabled, paused or throttled, in the order of their
// URLs. A million deliveries take about half a second, during which the work continues.
func (q *Queue) Endpoints(ctx context.Context) ([]Endpoint, error) {
	all, err := q.store.endpoints(ctx)
	return all, errorOf("Endpoints", err)
}

func (s *store) endpoints(ctx context.Context) ([]Endpoint, error) {
	byURL := make(map[string]*Endpoint)
	of := func(name string) *Endpoint {
		if byURL[name] == nil {
			byURL[name] = &Endpoint{URL: name}
		}
		return byURL[name]
	}
	count := func(rows *sql.Rows) error {
		var name, state string
		var n int
		var due sql.NullInt64
		if err := rows.Scan(&name, &state, &n, &due); err != nil {
			return err
		}
		e := of(name)
		if due.Valid {
			e.Due = time.UnixMicro(due.Int64)
		}
		switch stateOf(rivertype.JobState(state)) {
		case Waiting:
			e.Waiting += n
		case Running:
			e.Running += n
		case Dead:
			e.Dead += n
		}
		return nil
	}
	for index, condition := range map[string]string{
		dueIndex: s.available(), asideIndex: aside, "": isRunning,
	} {
		if err := s.each(ctx, s.reading, count, s.countQuery(index, condition)); err != nil {
			return nil, err
		}
	}
	if err := s.each(ctx, s.reading, func(rows *sql.Rows) error {
		var name string
		var next, failing, disabled, paused int64
		var perSecond int
		if err := rows.Scan(&name, &next, &failing, &disabled, &paused, &perSecond); err != nil {
			return err
		}
		if byURL[name] == nil && failing == 0 && disabled == 0 && paused == 0 && perSecond == 0 {
			return nil
		}
		e := of(name)
		e.PerSecond = perSecond
		for to, at := range map[*time.Time]int64{
			&e.Next: next, &e.Failing: failing, &e.Disabled: disabled, &e.Paused: paused,
		} {
			if at > 0 {
				*to = time.UnixMicro(at)
			}
		}
		return nil
	}, fmt.Sprintf(`SELECT endpoint, %s(next_at, alone_until), failing_since, disabled_at, paused_at, per_second FROM deliveryqueue_endpoint`,
		s.greatest)); err != nil {
		return nil, err
	}
	var all []Endpoint
	for _, e := range byURL {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return cmp.Compare(a.URL, b.URL) })
	return all, nil
}

// countQuery returns the statement that counts the jobs that meet a condition. It
// must be the condition of the index or, if index is "", one that few jobs meet.
func (s *store) countQuery(index, condition string) string {
	due := `NULL`
	if index == dueIndex { // which has the times
		due = fmt.Sprintf(`CASE WHEN min(scheduled_at) <= %s THEN %s END`, s.after(`0`), s.microsOf(`min(scheduled_at)`))
	}
	return fmt.Sprintf(`SELECT %s, state, count(*), %s FROM %s WHERE %s GROUP BY 1, state`,
		s.endpoint(), due, s.jobsBy(index), condition) // without the index, SQLite would read the rows
}

// Pause makes the deliveries to an endpoint wait, in all processes, until Resume.
// Attempts in progress end as usual. endpoint is an Options.Endpoint, or a scheme and
// host, such as https://example.com; it need not have been used. A delivery whose deadline passes
// during the pause becomes a dead letter after Resume.
func (q *Queue) Pause(ctx context.Context, endpoint string) error {
	name, err := parseEndpoint(endpoint)
	if err == nil {
		_, err = q.store.db.ExecContext(ctx, q.store.query(fmt.Sprintf(`
			INSERT INTO deliveryqueue_endpoint AS own (endpoint, paused_at) VALUES ($1, %[1]s)
			ON CONFLICT (endpoint) DO UPDATE SET paused_at = CASE WHEN own.paused_at > 0 THEN own.paused_at ELSE %[1]s END`,
			q.store.micros())), name)
	}
	return errorOf("Pause", err)
}

// Resume ends a Pause of the endpoint. It also enables an endpoint that
// Config.DisableAfter or a 410 disabled, and ends the wait for its Retry-After. The
// error matches ErrNotPaused if there was nothing to end.
func (q *Queue) Resume(ctx context.Context, endpoint string) error {
	name, err := parseEndpoint(endpoint)
	if err == nil {
		var result sql.Result
		if result, err = q.store.db.ExecContext(ctx, q.store.query(fmt.Sprintf(
			`UPDATE deliveryqueue_endpoint SET paused_at = 0, disabled_at = 0, failing_since = 0, alone_until = 0
			WHERE endpoint = $1 AND (paused_at > 0 OR failing_since > 0 OR alone_until > %s)`, q.store.micros())), name); err == nil {
			var n int64
			if n, err = result.RowsAffected(); err == nil && n == 0 {
				err = fmt.Errorf("%.80q: %w", name, ErrNotPaused)
			}
		}
	}
	q.asked.give()
	return errorOf("Resume", err)
}

// ErrNotPaused is in the error of Resume for an endpoint that is not paused, whose
// last attempt did not fail, and for which no Retry-After is in force.
var ErrNotPaused = errors.New("the endpoint is not paused, does not fail, and did not ask to wait")

// SetThrottle limits the attempts at an endpoint to a number per second, in all
// processes and also of deliveries that wait. It takes precedence over the throttles of
// policies. perSecond must be at most 1,000,000; 0 ends the limit, and the next attempt
// of a delivery whose policy has a throttle sets that of the policy.
func (q *Queue) SetThrottle(ctx context.Context, endpoint string, perSecond int) error {
	name, err := parseEndpoint(endpoint)
	if err == nil && (perSecond < 0 || perSecond > maxPerSecond) {
		err = fmt.Errorf("perSecond is %d; it must be 1 to %d, or 0 for no limit", perSecond, maxPerSecond)
	}
	if err == nil {
		_, err = q.store.db.ExecContext(ctx, q.store.query(`
			INSERT INTO deliveryqueue_endpoint (endpoint, per_second, rate_from) VALUES ($1, $2, $3)
			ON CONFLICT (endpoint) DO UPDATE SET per_second = $2, rate_from = $3`),
			name, perSecond, int64(min(perSecond, 1))*rateIsSet)
	}
	q.asked.give()
	return errorOf("SetThrottle", err)
}

const maxPerSecond = 1_000_000 // the interval is in microseconds

// maxEndpoint is the longest name of an endpoint, in bytes.
const maxEndpoint = 512

// parseEndpoint checks and normalizes the name of an endpoint, which may be a URL.
func parseEndpoint(text string) (string, error) {
	name := text
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
			u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
			return "", fmt.Errorf("the endpoint is %.80q; it must be a scheme and a host, such as https://example.com, "+
				"or a URL without user, query and fragment, or a name", text)
		}
		name = endpointOf(u) + strings.TrimSuffix(u.EscapedPath(), "/")
	}
	if name == "" || name == noEndpoint || len(name) > maxEndpoint || name != redact.Text(name) || strings.TrimSpace(name) != name {
		return "", fmt.Errorf("the endpoint is %.80q; its name must have 1 to %d bytes, and no control character or space around it",
			text, maxEndpoint)
	}
	return name, nil
}
