package deliveryqueue

import (
	"strings"
	"testing"
)

// If the store refuses a value, in a turn or in an outcome, one delivery becomes a
// dead letter with that error, and no other delivery is delayed.
func TestRefusedByTheStore(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newPostgres(t), Config{})
	for table, when := range map[string]string{
		"river_job":              `UPDATE ON river_job FOR EACH ROW WHEN (NEW.metadata -> 'delivery' ->> 'key' = 'outcome' AND NEW.state = 'completed')`,
		"deliveryqueue_endpoint": `INSERT ON deliveryqueue_endpoint FOR EACH ROW`,
	} {
		execute(t, q.store.db, `CREATE FUNCTION refuse_`+table+`() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'integer out of range' USING ERRCODE = '22003'; END $$`)
		execute(t, q.store.db, `CREATE TRIGGER refuse BEFORE `+when+` EXECUTE FUNCTION refuse_`+table+`()`)
	}
	var items []Item
	for range 20 {
		items = append(items, Item{post(t, end.URL, "hello"), Options{}})
	}
	items[3].Options.IdempotencyKey = "outcome"
	items[5].Options.Policy = throttle(t, 100)
	must[[]int64](t)(q.EnqueueMany(t.Context(), items))
	start(t, q)
	waitFor(t, q, Stats{Delivered: 18, Dead: 2})
	for _, d := range list(t, q, Filter{State: Dead}) {
		if d.Reason != reasonStore || !strings.Contains(d.Err, "out of range") {
			t.Errorf("%+v", d)
		}
	}
}
