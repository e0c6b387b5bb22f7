package deliveryqueue

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// A State is the state of a delivery.
type State string

// The states. A delivery is Canceled after Cancel, or after Config.DeadLetter
// took it; its Delivery.Reason is "" unless it was a dead letter.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Delivered State = "delivered"
	Dead      State = "dead"
	Canceled  State = "canceled"
)

// riverStates maps each state to River's names.
var riverStates = map[State][]rivertype.JobState{
	Waiting: {
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateScheduled,
	},
	Running:   {rivertype.JobStateRunning},
	Delivered: {rivertype.JobStateCompleted},
	Dead:      {rivertype.JobStateDiscarded},
	Canceled:  {rivertype.JobStateCancelled},
}

// stateList returns River's names of states as an SQL list.
func stateList(states ...State) string {
	var names []string
	for _, s := range states {
		for _, name := range riverStates[s] {
			names = append(names, "'"+string(name)+"'")
		}
	}
	return strings.Join(names, ", ")
}

func stateOf(state rivertype.JobState) State {
	for s, names := range riverStates {
		if slices.Contains(names, state) {
			return s
		}
	}
	return State(state)
}

// A Delivery is a stored delivery without the request's headers and body.
type Delivery struct {
	ID             int64
	State          State
	Method         string
	URL            string // without user, query and fragment
	IdempotencyKey string
	Tags           []string
	Enqueued       time.Time
	Next           time.Time // of the next attempt, also by its endpoint's Retry-After or probe, if it is waiting
	Ended          time.Time // when it was delivered, canceled or became a dead letter; zero before
	Attempts       int       // that were made
	Status         int       // of the last response; 0 if there was none
	Err            string    // of the last attempt; "" if there was a response

	// Reason is why the delivery failed: the text of an awsretry.Stop, such as
	// "max_attempts" or "permanent"; "panic" if Base or RetryStatus panicked;
	// "unreadable" if the row could not be read; "store" if the store refused a
	// value of the row; or "crashed" if the process died during 1,000 attempts.
	Reason string

	Last []Result // of the last five attempts, the latest last
}

// A Result is how an attempt ended.
type Result struct {
	Start   time.Time     // of the attempt
	Elapsed time.Duration // until the beginning of the response's body was read
	Status  int           // of the response; 0 if there was none
	Err     string        // at most 256 bytes; "" if there was a response

	// Body is the beginning of the response's body, at most 512 bytes, without
	// control characters. It is "" if Config.Seal is set, because it would be
	// stored in the clear.
	Body string
}

// A Filter selects deliveries. The zero value selects all.
type Filter struct {
	IDs            []int64   // empty: any
	State          State     // "": any
	Endpoint       string    // as for Pause, such as https://example.com; "": any
	IdempotencyKey string    // "": any
	Tags           []string  // all of them; empty: any
	Before         time.Time // enqueued before; zero: at any time

	Newest bool  // the newest first
	After  int64 // only deliveries that follow this ID in the order; 0: all
	Limit  int   // deliveries to select, the first ones; 0: all
}

// next returns the end of a query for the first IDs that f selects after last, which
// is 0 in the beginning. PostgreSQL would otherwise look for a rare key or tag in the
// order of the IDs, and read the whole table.
func (f Filter) next(last int64, limit int) string {
	id, than, order := `id`, `>`, `ASC`
	if f.IdempotencyKey != "" || len(f.Tags) > 0 {
		id = `id + 0`
	}
	if f.Newest {
		than, order = `<`, `DESC`
	}
	text := ``
	if last = cmp.Or(last, f.After); last != 0 {
		text = fmt.Sprintf(` AND %s %s %d`, id, than, last)
	}
	return text + fmt.Sprintf(` ORDER BY %s %s LIMIT %d`, id, order, limit)
}

// where returns the conditions of f, and their parameters.
func (s *store) where(f Filter) (string, []any, error) {
	params := []any{queueName}
	where := "queue = $1"
	add := func(format string, param any) {
		params = append(params, param)
		where += " AND " + fmt.Sprintf(format, len(params))
	}
	if f.Limit < 0 {
		return "", nil, fmt.Errorf("Filter.Limit is %d; it must be above 0, or 0 for no limit", f.Limit)
	}
	if len(f.IDs) > 0 {
		where += " AND id IN " + idList(f.IDs)
	}
	if f.State != "" {
		if _, ok := riverStates[f.State]; !ok {
			return "", nil, fmt.Errorf("Filter.State is %.20q; it must be one of waiting, running, delivered, dead, canceled",
				f.State)
		}
		where += " AND state IN (" + stateList(f.State) + ")"
	}
	if f.Endpoint != "" {
		name, err := parseEndpoint(f.Endpoint)
		if err != nil {
			return "", nil, fmt.Errorf("Filter.Endpoint: %w", err)
		}
		add("("+s.metadata()+") -> 'delivery' ->> 'endpoint' = $%d", name)
	}
	has := func(name string, value any) { // by an index of River's, which SQLite does not have
		text, _ := json.Marshal(map[string]map[string]any{headKey: {name: value}})
		add("metadata @> $%d::jsonb", string(text))
	}
	switch key := f.IdempotencyKey; {
	case key != "" && s.sqlite:
		add("("+s.metadata()+") -> 'delivery' ->> 'key' = $%d", key)
	case key != "":
		has("key", key)
	}
	for _, tag := range f.Tags {
		if s.sqlite {
			add("$%d IN (SELECT value FROM json_each(("+s.metadata()+") -> 'delivery' -> 'tags'))", tag)
		} else {
			has("tags", []string{tag})
		}
	}
	if !f.Before.IsZero() {
		add(s.microsOf("created_at")+" < $%d", f.Before.UnixMicro())
	}
	return where, params, nil
}

const (
	pageSize  = 500
	idsAtOnce = 100_000
)

// List yields the deliveries that f selects, in the order in which they were
// enqueued, or the reverse. To continue after a page of Limit deliveries, set
// Filter.After to the last ID. In SQLite, a key or a tag is found by
// reading all. List reads up to 100,000 of their IDs and then the deliveries in
// pages, so it may miss changes that are made while it runs. It stops after an
// error, which it yields with the zero Delivery.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if err := q.list(ctx, f, yield); err != nil {
			yield(Delivery{}, fmt.Errorf("deliveryqueue: List: %w", err))
		}
	}
}

func (q *Queue) list(ctx context.Context, f Filter, yield func(Delivery, error) bool) error {
	where, params, err := q.store.where(f)
	if err != nil {
		return err
	}
	last, left := int64(0), cmp.Or(f.Limit, math.MaxInt)
	for {
		// To find a page by the filter, the store would sort all that it selects.
		size := min(idsAtOnce, left)
		ids, err := q.store.ids(ctx, q.store.reading, `SELECT id FROM river_job WHERE `+where+f.next(last, size), params)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(ids, pageSize) {
			page, err := q.page(ctx, chunk, f.Newest)
			if err != nil {
				return err
			}
			for _, d := range page {
				if f.State != "" && d.State != f.State { // it has changed since
					continue
				}
				if !yield(d, nil) {
					return nil
				}
			}
			last = chunk[len(chunk)-1]
		}
		left -= len(ids)
		if len(ids) < size || left == 0 {
			return nil
		}
	}
}

func (s *store) ids(ctx context.Context, db *database, statement string, params []any) (ids []int64, err error) {
	err = s.each(ctx, db, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, statement, params...)
	return ids, err
}

// idList returns the IDs as an SQL list.
func idList(ids []int64) string {
	var list []string
	for _, id := range ids {
		list = append(list, strconv.FormatInt(id, 10))
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// page reads deliveries into memory, so that the caller can use the store while
// List yields them.
func (q *Queue) page(ctx context.Context, ids []int64, newest bool) (page []Delivery, err error) {
	text, order := "metadata", "ASC"
	if newest {
		order = "DESC"
	}
	if q.store.sqlite {
		text = "json(" + q.store.metadata() + ")"
	}
	err = q.store.each(ctx, q.store.reading, func(rows *sql.Rows) error {
		var (
			d     Delivery
			state string
			meta  []byte
			times [3]storedTime
			alone sql.NullInt64
		)
		if err := rows.Scan(&d.ID, &state, &meta, &times[0], &times[1], &times[2], &alone); err != nil {
			return err
		}
		d.State = stateOf(rivertype.JobState(state))
		d.Enqueued, d.Ended = times[0].Time, times[2].Time
		if d.State == Waiting {
			d.Next = later(times[1].Time, alone)
		}
		d.describe(readMetadata(meta))
		for _, t := range times {
			if t.damaged != "" {
				d.Reason, d.Err = reasonUnreadable, fmt.Sprintf("a time of the row is %.40q", t.damaged)
			}
		}
		page = append(page, d)
		return nil
	}, fmt.Sprintf(`SELECT id, state, %s, created_at, scheduled_at, finalized_at, %s FROM river_job WHERE id IN %s ORDER BY id %s`,
		text, q.store.aloneUntil(), idList(ids), order))
	return page, err
}

// Request returns the stored request of a delivery, with its headers and body, as it
// is sent before Config.Base changes it. The error is ErrNotFound for an unknown ID.
func (q *Queue) Request(ctx context.Context, id int64) (*http.Request, error) {
	query := `SELECT args, metadata FROM river_job WHERE id = $1 AND queue = $2`
	if q.store.sqlite {
		query = `SELECT CASE WHEN json_valid(args, 9) THEN json(args) ELSE args END, json(` + q.store.metadata() + `)
			FROM river_job WHERE id = $1 AND queue = $2`
	}
	var args, raw []byte
	err := q.store.reading.QueryRowContext(ctx, q.store.query(query), id, queueName).Scan(&args, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: %d", ErrNotFound, id)
	}
	var stored unread
	if err == nil {
		meta, damaged := readMetadata(raw)
		if stored, err = q.read(args, meta.Head); damaged != nil {
			err = damaged
		}
	}
	if err != nil {
		return nil, errorOf("Request", err)
	}
	return stored.request(ctx)
}

// A storedTime is a time, or zero for NULL. In SQLite, another program may have
// written any text.
type storedTime struct {
	time.Time
	damaged string
}

// Scan implements sql.Scanner.
func (t *storedTime) Scan(v any) error {
	switch v := v.(type) {
	case nil:
	case time.Time:
		t.Time = v
	default:
		t.damaged = fmt.Sprint(v)
	}
	return nil
}

// describe sets the fields from the metadata. If err is not nil, the metadata is
// damaged.
func (d *Delivery) describe(m metadata, err error) {
	d.Method, d.URL, d.IdempotencyKey, d.Tags = m.Head.Method, m.Head.URL, m.Head.Key, m.Head.Tags
	d.Attempts, d.Status, d.Err, d.Reason = m.Record.Attempts, m.Record.Status, m.Record.Err, m.Record.Reason
	for _, r := range m.Record.Last {
		d.Last = append(d.Last, Result{
			Start: time.UnixMicro(r.At), Elapsed: time.Duration(r.Took) * time.Microsecond,
			Status: r.Status, Err: r.Err, Body: r.Body,
		})
	}
	switch {
	case err != nil:
		d.Reason, d.Err = reasonUnreadable, err.Error()
	case d.State == Dead && d.Reason == "":
		d.Reason = reasonCrashed
	}
}

// Stats is the number of deliveries in the store in each state.
type Stats struct{ Waiting, Running, Delivered, Dead, Canceled int }

// Stats counts the deliveries. It reads an index of all of them: a million take
// about 0.3 s in SQLite. Use Empty to find out whether any are left.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	counts := map[State]*int{
		Waiting: &s.Waiting, Running: &s.Running, Delivered: &s.Delivered, Dead: &s.Dead, Canceled: &s.Canceled,
	}
	err := q.store.each(ctx, q.store.reading, func(rows *sql.Rows) error {
		var state string
		var n int
		err := rows.Scan(&state, &n)
		if count, ok := counts[stateOf(rivertype.JobState(state))]; ok {
			*count += n
		}
		return err
	}, `SELECT state, count(*) FROM river_job WHERE queue = $1 GROUP BY state`, queueName)
	return s, errorOf("Stats", err)
}

// Empty reports whether no delivery waits, not even for a retry, and none is being
// attempted. It takes the same time however many there are.
func (q *Queue) Empty(ctx context.Context) (bool, error) {
	var found bool
	err := q.store.reading.QueryRowContext(ctx, q.store.query(fmt.Sprintf(
		`SELECT EXISTS (SELECT 1 FROM river_job WHERE queue = $1 AND state IN (%s))`, stateList(Waiting, Running))),
		queueName).Scan(&found)
	return err == nil && !found, errorOf("Empty", err)
}
