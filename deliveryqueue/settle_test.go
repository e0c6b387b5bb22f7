package deliveryqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// slowJobs takes a second to commit.
type slowJobs struct {
	commits [][]int64
	err     error
	panics  bool
}

func (s *slowJobs) settle(_ context.Context, changes []*change) (map[int64]committed, error) {
	time.Sleep(time.Second)
	if s.panics {
		panic("boom")
	}
	var ids []int64
	made := make(map[int64]committed)
	for _, c := range changes {
		ids = append(ids, c.ID)
		if c.ID%2 == 0 {
			made[c.ID] = committed{state: rivertype.JobStateCompleted}
		}
	}
	s.commits = append(s.commits, ids)
	return made, s.err
}

func TestGroup(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name   string
		err    error
		panics bool
	}{{"committed", nil, false}, {"failed", boom, false}, {"panicked", errNotCommitted, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, to := newGroup(), &slowJobs{err: tt.err, panics: tt.panics}
				begin := time.Now()
				errs := make([]error, 10)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						defer func() {
							if recover() != nil {
								errs[i] = errNotCommitted
							}
						}()
						var made bool
						_, made, errs[i] = g.commit(t.Context(), to, &change{ID: int64(i)})
						if want := i%2 == 0 && !tt.panics; made != want {
							t.Errorf("outcome %d is made: %v", i, made)
						}
					})
				}
				wg.Wait()
				for i, err := range errs {
					if !errors.Is(err, tt.err) {
						t.Errorf("outcome %d: %v", i, err)
					}
				}
				if took := time.Since(begin); took != 2*time.Second {
					t.Errorf("it took %v", took)
				}
				if !tt.panics && (len(to.commits) != 2 || len(to.commits[0]) != 1 || len(to.commits[1]) != 9) {
					t.Errorf("commits %v", to.commits)
				}
			})
		})
	}
}
