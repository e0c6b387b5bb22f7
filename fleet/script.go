package fleet

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

//go:embed renew.lua
var script string

// format is the version of the hash's fields, as in renew.lua.
const format = "5"

// The limits of a reply. A store that exceeds them does not run the script.
const (
	mostTime    = 1e12 // milliseconds
	mostRate    = 1e9
	mostTokens  = 1e9
	mostMembers = 1e6
	mostNumber  = 9e12 // of any other number
	longestGate = 24 * time.Hour

	longestEpoch = 300 // bytes
	longestReply = 1 << 16

	leastShare = 100  // a process is granted at least an equal share divided by this
	rounding   = 1e-9 // relative error of a rate
)

func milliseconds(d time.Duration) float64 { return float64(d.Milliseconds()) }

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// renew runs the script and checks its reply.
func (f *Fleet) renew(ctx context.Context, partition string, r *protocol.Request) (got protocol.Reply, err error) {
	defer func() {
		if p := recover(); p != nil { // requests continue without the store
			err = fmt.Errorf("the client panicked: %v", p)
		}
	}()
	arg, err := json.Marshal(r)
	if err != nil {
		return got, err
	}
	values, err := f.client.Eval(ctx, script, []string{f.key(partition)}, []string{string(arg)})
	switch {
	case err != nil:
		return got, err
	case len(values) != 1:
		return got, fmt.Errorf("the store returned %d values; it must return 1", len(values))
	case len(values[0]) > longestReply:
		return got, fmt.Errorf("the store returned %d bytes; it must return at most %d", len(values[0]), longestReply)
	}
	if err := json.Unmarshal([]byte(values[0]), &got); err != nil {
		return got, fmt.Errorf("the store returned %.40q: %w", values[0], err)
	}
	return got, check(&got, r)
}

var replyFields = reflect.VisibleFields(reflect.TypeFor[protocol.Reply]())

// check returns an error if a reply makes no sense.
func check(got *protocol.Reply, r *protocol.Request) error {
	if got.Differs != "" {
		all := map[string]string{"format": format, "settings": r.Settings, "pacing": r.Pacing}
		theirs, ours := different(got.Theirs, all[got.Differs])
		return fmt.Errorf("the processes that share the key have the %s %.150s; this one has %.150s", got.Differs, theirs, ours)
	}
	pace := max(got.Rate, 0)
	if r.MaxRate > 0 {
		if !(got.MaxRate > 0 && got.MaxRate <= r.MaxRate*(1+rounding)) {
			return fmt.Errorf("the store returned %g for MaxRate; it must be above 0, and at most %g", got.MaxRate, r.MaxRate)
		}
		pace = got.MaxRate
		if got.Rate > 0 {
			pace = min(pace, got.Rate)
		}
	}
	limits := map[string]float64{
		"Rate": mostRate, "Limit": mostRate, "Share": pace * (1 + rounding), "Part": 1, "Members": mostMembers,
		"Tokens": float64(r.Asked), "Left": mostTokens, "Spare": mostTokens, "Gate": milliseconds(longestGate), "Now": mostTime,
		"Slots": math.Ceil(r.Wanted), "At": 2*r.Lease + got.Every, "Opens": r.Lease,
	}
	all := reflect.ValueOf(*got)
	for _, field := range replyFields {
		most, ok := limits[field.Name]
		if !ok {
			most = mostNumber
		}
		if x := all.FieldByIndex(field.Index); x.CanFloat() && !(x.Float() >= 0 && x.Float() <= most) {
			return fmt.Errorf("the store returned %g for %s; it must be from 0 to %g", x.Float(), field.Name, most)
		}
	}
	least := pace / (leastShare * max(got.Members, 1))
	switch {
	case got.Epoch == "" || len(got.Epoch) > longestEpoch:
		return fmt.Errorf("the store returned an epoch of %d bytes; it must be from 1 to %d", len(got.Epoch), longestEpoch)
	case got.Slots > 0 && !(got.Every >= 1000/pace*(1-rounding) && got.At+got.Every*(got.Slots-1) <= 3*r.Lease):
		return fmt.Errorf("the store returned %g for Every; it must be at least %g, for %g in three leases of %g",
			got.Every, 1000/pace, got.Slots, r.Lease)
	case got.Share < least && !r.Leaving: // requests would wait for ever
		return fmt.Errorf("the store returned %g for Share; it must be at least %g", got.Share, least)
	}
	return nil
}

// different returns the parts of two settings that are not the same.
func different(theirs, ours string) (a, b string) {
	x, y := strings.Fields(theirs), strings.Fields(ours)
	if len(x) != len(y) {
		return theirs, ours
	}
	for i := range x {
		if x[i] != y[i] {
			a, b = a+" "+x[i], b+" "+y[i]
		}
	}
	return strings.TrimSpace(a), strings.TrimSpace(b)
}
