package fleet_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

func TestHist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{maxRate: 1, lease: 400 * time.Millisecond, pacing: awsretry.ScaledPacing, length: 20 * time.Second, callers: 4, answer: 10 * time.Millisecond}
		w.members = append(w.members, span{0, w.length})
		w.run(t)
		for _, s := range w.sent {
			fmt.Println(s.at)
		}
	})
}
