package rows

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"example.com/awsretry"
	"example.com/awsretry/services"
)

// also returns a policy that repeats responses with these statuses, too.
func also(statuses ...int) awsretry.Policy {
	return func(a *awsretry.Attempt) awsretry.Class {
		if a.Response != nil && slices.Contains(statuses, a.Response.StatusCode) {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	}
}

// leaving returns a policy for a client that repeats some failures itself.
func leaving(repeats func(*awsretry.Attempt) bool, policy awsretry.Policy) awsretry.Policy {
	return func(a *awsretry.Attempt) awsretry.Class {
		class := policy(a)
		if class.Retryable() && repeats(a) {
			return awsretry.Permanent
		}
		return class
	}
}

// uploads: a push repeats the whole upload of a blob, and the PUT of a manifest.
func uploads(a *awsretry.Attempt) bool {
	if a.Request.Method == http.MethodHead {
		return strings.Contains(a.Request.URL.Path, "/blobs/")
	}
	return a.Request.Method != http.MethodGet
}

// uploadAgain is for remote.WithRetryPredicate. Failures of uploads are
// *url.Error, those of single requests are not.
func uploadAgain(err error) bool {
	var failed *awsretry.Error
	if !errors.As(err, &failed) {
		var refused *transport.Error
		return errors.As(err, &refused) && refused.Temporary()
	}
	_, upload := err.(*url.Error)
	return upload && failed.Stop == awsretry.StopPermanent &&
		awsretry.DefaultPolicy(&awsretry.Attempt{Err: failed.Err}).Retryable()
}

// nextNode: elastic-transport-go sends these to another node.
func nextNode(a *awsretry.Attempt) bool {
	return a.Err != nil || slices.Contains([]int{502, 503, 504}, a.Response.StatusCode)
}

// kubeRepeats: client-go repeats these up to ten times.
func kubeRepeats(a *awsretry.Attempt) bool {
	if a.Err == nil {
		return a.Response.Header.Get("Retry-After") != ""
	}
	return a.Request.Method == http.MethodGet && (utilnet.IsConnectionReset(a.Err) ||
		utilnet.IsProbableEOF(a.Err) || utilnet.IsHTTP2ConnectionLost(a.Err) ||
		a.Request.URL.Query().Has("watch") && utilnet.IsTimeout(a.Err))
}

// storagePolicy leaves the chunks of an upload to the client, which repeats them by
// itself, and repeats a write only under a condition on the object's generation. The
// other statuses are those that the client repeats.
func storagePolicy(a *awsretry.Attempt) awsretry.Class {
	class, query := also(501, 505, 506, 507, 508, 510, 511)(a), a.Request.URL.Query()
	switch {
	case !class.Retryable():
	case query.Has("upload_id"):
		return awsretry.Permanent
	case class == awsretry.Throttled, a.Request.Method == http.MethodGet, query.Has("ifGenerationMatch"):
	default:
		return awsretry.Permanent
	}
	return class
}

// untilReset returns the time until a limit of which nothing is left is reset.
func untilReset(resp *http.Response, _ []byte) (time.Duration, bool) {
	for _, limit := range awsretry.ReadLimits(resp) {
		if limit.Remaining < 1 && limit.Reset > 0 {
			return limit.Reset, true
		}
	}
	return 0, false // Retry-After
}

// belowClientGo is for rest.Config.Wrap.
func belowClientGo(base http.RoundTripper) http.RoundTripper {
	t := &awsretry.Transport{Base: base, Policy: leaving(kubeRepeats, awsretry.IdempotentOnly(nil))}
	services.Kubernetes.Apply(t)
	return plainEOF{t}
}

// plainEOF returns an EOF without the *awsretry.Error. client-go compares it with ==.
type plainEOF struct{ *awsretry.Transport }

func (t plainEOF) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	var failed *awsretry.Error
	if errors.As(err, &failed) && utilnet.IsProbableEOF(failed.Err) {
		err = failed.Err
	}
	return resp, err
}
