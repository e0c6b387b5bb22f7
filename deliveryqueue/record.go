package deliveryqueue

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/redact"
	"github.com/riverqueue/river/rivertype"
)

// A job's metadata has the head under headKey, which does not change, and the
// record under River's key for a job's output.
const headKey = "delivery"

// A head is the part of a request that List shows, stored unsealed.
type head struct {
	Method   string `json:"method"`
	URL      string `json:"url"` // without user, query and fragment
	Endpoint string `json:"endpoint"`
	Key      string `json:"key"`

	Tags []string `json:"tags,omitempty"`
}

// endpointOf returns the endpoint of a URL, which is its origin (RFC 6454): in
// lower case, without the scheme's default port and without a full stop at the end
// of the host, and with one spelling of an IP address.
func endpointOf(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := strings.TrimLeft(u.Port(), "0")
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + ":" + port
}

// A record is the state of a delivery after its last attempt. Every field is
// always written, because the new record is merged into the old one.
type record struct {
	Attempts int    `json:"attempts"`
	Status   int    `json:"status"` // of the last response; 0 if there was none
	Err      string `json:"error"`  // of the last attempt; "" if there was a response
	Reason   string `json:"reason"` // why it failed for good; "" if it has not

	Refused int64 `json:"refused"` // since when each response was a refusal, in Unix microseconds; 0: the last one was not

	Last []result `json:"last"` // the last attempts, the latest last
}

// A result is how an attempt ended.
type result struct {
	At     int64  `json:"at"`               // when it began, in Unix microseconds
	Took   int64  `json:"took"`             // up to the beginning of the body, in microseconds
	Status int    `json:"status,omitempty"` // 0 if there was no response
	Err    string `json:"error,omitempty"`
	Body   string `json:"body,omitempty"` // its beginning
}

const (
	maxErrText  = 4 << 10
	maxLastErr  = 256
	keptResults = 5
)

// after returns the record after attempt a.
func (r record) after(a awsretry.Attempt, began time.Time, took time.Duration, beginning []byte) record {
	last := result{At: began.UnixMicro(), Took: took.Microseconds()}
	next := record{Attempts: a.Number}
	if a.Response != nil {
		next.Status, last.Status = a.Response.StatusCode, a.Response.StatusCode
		if refusal(next.Status) {
			next.Refused = cmp.Or(r.Refused, last.At)
		}
	}
	next.setErr(a.Err)
	last.Err, last.Body = shorten(next.Err, maxLastErr), redact.Text(shorten(string(beginning), beginningSize))
	next.Last = append(slices.Clone(r.Last), last)
	next.Last = next.Last[max(0, len(next.Last)-keptResults):]
	return next
}

// shorten returns at most n bytes of text, as UTF-8.
func shorten(text string, n int) string { return strings.ToValidUTF8(text[:min(len(text), n)], "") }

func (r *record) setErr(err error) {
	if err == nil {
		r.Err = ""
		return
	}
	r.Err = shorten(redact.Error(err), maxErrText) // it may quote a server
}

// metadata is the metadata of a job.
type metadata struct {
	Head   head   `json:"delivery"`
	Record record `json:"output"`
}

func readMetadata(raw []byte) (metadata, error) {
	var m metadata
	err := json.Unmarshal(raw, &m)
	return m, err
}

func (r record) update() map[string]record { return map[string]record{rivertype.MetadataKeyOutput: r} }
