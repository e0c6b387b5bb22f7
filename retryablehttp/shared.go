package retryablehttp

import (
	"net/http"
	"slices"
	"sync"

	"example.com/awsretry"
)

// Some programs make a Client for each request, over one HTTPClient. The retry
// token buckets would then be new for each request, so they are those of the
// HTTPClient. The last few are remembered.
var transports = struct {
	mu  sync.Mutex
	all []known // the latest last
}{}

type known struct {
	client    *http.Client
	transport *awsretry.Transport
}

// maxTransports limits how many HTTPClients are remembered.
const maxTransports = 64

// transportOf returns the Transport that sends through client.
func transportOf(client *http.Client) *awsretry.Transport {
	transports.mu.Lock()
	defer transports.mu.Unlock()
	i := slices.IndexFunc(transports.all, func(k known) bool { return k.client == client })
	var k known
	switch {
	case i >= 0:
		k = transports.all[i]
		transports.all = slices.Delete(transports.all, i, i+1)
	default:
		k = known{client, &awsretry.Transport{Base: &base{client}, MaxRetryAfter: -1}} // Retry-After is for Backoff
		if len(transports.all) == maxTransports {
			transports.all = slices.Delete(transports.all, 0, 1)
		}
	}
	transports.all = append(transports.all, k)
	return k.transport
}
