package deliveryqueue

import (
	"strings"
	"testing"
)

// A user of PostgreSQL that cannot make tables can use those that are there.
func TestRights(t *testing.T) {
	t.Parallel()
	store := newPostgres(t)
	owner := open(t, store, Config{})
	database := store[strings.LastIndex(store, "/")+1 : strings.Index(store, "?")]
	user := "worker_" + database
	for _, statement := range []string{
		"CREATE ROLE " + user + " LOGIN",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + user,
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO " + user,
	} {
		execute(t, owner.store.db, statement)
	}
	end := newEndpoint(t, 200)
	q := open(t, strings.Replace(store, "postgres@", user+"@", 1), Config{})
	if _, err := q.store.db.Exec("CREATE TABLE more (id integer)"); err == nil {
		t.Error("the user can make tables")
	}
	enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"throttlePolicy": {"maxReceivesPerSecond": 9}}`)})
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
}
