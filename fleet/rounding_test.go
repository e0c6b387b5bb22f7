package fleet_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// All of a rate, as the script grants it, is not more than the rate.
func TestAllOfARate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	var store fleettest.Store
	for i := range 300 {
		seed := strconv.FormatFloat(math.Exp(10*random.Float64()), 'g', -1, 64)
		r, err := store.Eval(t.Context(), fleet.Script, []string{fmt.Sprint("key", i)},
			renewal(map[int]string{argSeedRate: seed, argWanted: "1e9"}))
		if err != nil {
			t.Fatal(err)
		}
		share, _ := strconv.ParseFloat(r[replyShare], 64)
		rate, _ := strconv.ParseFloat(r[replyRate], 64)
		if share > rate || share < 0.5*rate {
			t.Fatalf("one process has %v of %v", share, rate)
		}
	}
}

// A share that is above the rate by rounding is a share.
func TestShareIsRounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faults faultLog
		shared := fleet.New(clientFunc(func(context.Context, []string) ([]string, error) {
			share := strconv.FormatFloat(math.Nextafter(100, 101), 'g', -1, 64)
			return reply(map[int]string{replyRate: "100", replyShare: share}), nil
		}), fleet.Config{OnError: faults.add})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, delay), Mode: awsretry.Adaptive, Shared: shared}
		send(t, tr)
		time.Sleep(time.Second)
		if state, _ := tr.State(host); !state.Leased || len(faults.all()) > 0 {
			t.Errorf("the state is %+v and the errors are %q", state, faults.all())
		}
	})
}
