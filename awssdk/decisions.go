package awssdk

import (
	"net/http"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
)

// decisions are those that a Transport makes about one call, see its Loop.
type decisions interface {
	LimitAttempts(n int) (maxAttempts int)
	Wait() error
	Classify(resp *http.Response, code string, err error) awsretry.Class
	SetClass(awsretry.Class)
	Fault() error
	Settle()
	Decide(why awsretry.Stop) (delay time.Duration, stop awsretry.Stop)
	Detach() (putBack func())
	End()
}

func newLoop(t *awsretry.Transport, req *http.Request, detached bool) (decisions, error) {
	loop, err := t.Loop(retrier.Seal{}, req, detached)
	if err != nil {
		return nil, err
	}
	return loop, nil
}
