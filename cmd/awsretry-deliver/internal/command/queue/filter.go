package queue

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/deliveryqueue"
)

// filterFlags select deliveries.
type filterFlags struct {
	state     cli.Choice
	endpoint  cli.Word
	key       cli.Word
	tags      []string
	olderThan cli.Period
	newest    bool
	after     cli.Number
	limit     cli.Number
}

var states = []string{"waiting", "running", "delivered", "dead", "canceled"}

// stateFlag adds --state, which allows these states.
func (f *filterFlags) stateFlag(set *pflag.FlagSet, allowed ...string) {
	f.state = cli.Choice{Kind: "STATE", Allowed: allowed}
	set.Var(&f.state, "state", "those in this state: "+f.state.Words())
}

// register adds the flags of every command that selects deliveries.
func (f *filterFlags) register(set *pflag.FlagSet) {
	f.endpoint, f.key, f.limit = cli.Word{Kind: "URL"}, cli.Word{Kind: "KEY"}, cli.Number{Least: 1}
	set.Var(&f.endpoint, "endpoint", "those to this scheme and host, as https://example.com, or to the endpoint with this name")
	set.Var(&f.key, "key", "those with this Idempotency-Key")
	tagFlag(set, &f.tags, "those with this tag; repeat it for those with several")
	set.Var(&f.olderThan, "older-than", "those that were stored this long ago or longer")
	set.Var(&f.limit, "limit", "this many at most (default all)")
}

// orderFlags adds the flags of list.
func (f *filterFlags) orderFlags(set *pflag.FlagSet) {
	f.after = cli.Number{Least: 1}
	set.BoolVar(&f.newest, "newest", false, "the newest first")
	set.Var(&f.after, "after", "only those that follow this number, the last one of a page")
}

func tagFlag(set *pflag.FlagSet, tags *[]string, usage string) {
	set.StringArrayVar(tags, "tag", nil, usage)
}

// filter returns the filter of the flags and the numbers.
func (f *filterFlags) filter(ids []string, now time.Time) (deliveryqueue.Filter, error) {
	filter := deliveryqueue.Filter{
		IdempotencyKey: f.key.Value, Tags: f.tags, Newest: f.newest, After: int64(f.after.Value), Limit: f.limit.Value,
	}
	var err error
	if filter.IDs, err = parseIDs(ids); err != nil {
		return filter, err
	}
	filter.State = deliveryqueue.State(f.state.Value)
	if f.endpoint.Value != "" {
		if err := checkEndpoint("--endpoint", f.endpoint.Value); err != nil {
			return filter, err
		}
		filter.Endpoint = f.endpoint.Value
	}
	if f.olderThan != 0 {
		filter.Before = now.Add(-time.Duration(f.olderThan))
	}
	return filter, nil
}

// checkEndpoint returns an error for a URL that is not an endpoint. The error does
// not show the text, which may contain a password.
func checkEndpoint(what, text string) error {
	u, err := url.Parse(text)
	if strings.Contains(text, "://") && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fmt.Errorf("%s must be a scheme and a host, as https://example.com or http://127.0.0.1:8080, or an endpoint's name", what)
	}
	return nil
}

func parseIDs(args []string) ([]int64, error) {
	var ids []int64
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 1 {
			return nil, fmt.Errorf("ID is %.40q; it must be the number of a delivery, 1 or more", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
