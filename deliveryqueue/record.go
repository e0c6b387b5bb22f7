package deliveryqueue

import (
	"encoding/json"
	"net/url"
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
}

// endpointOf returns the endpoint of a URL. All deliveries to an endpoint share
// a throttle.
func endpointOf(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }

// A record is the state of a delivery after its last attempt. Every field is
// always written, because the new record is merged into the old one.
type record struct {
	Attempts int    `json:"attempts"`
	Status   int    `json:"status"` // of the last response; 0 if there was none
	Err      string `json:"error"`  // of the last attempt; "" if there was a response
	Reason   string `json:"reason"` // why it failed for good; "" if it has not
	Turn     int64  `json:"turn"`   // the next attempt's turn at the throttle, in Unix microseconds; 0 if it has none
}

const maxErrText = 4 << 10

// after returns the record after attempt a.
func (r record) after(a awsretry.Attempt) record {
	r = record{Attempts: a.Number}
	if a.Response != nil {
		r.Status = a.Response.StatusCode
	}
	r.setErr(a.Err)
	return r
}

func (r *record) setErr(err error) {
	if err == nil {
		r.Err = ""
		return
	}
	text := redact.Error(err) // it may quote a server
	r.Err = strings.ToValidUTF8(text[:min(len(text), maxErrText)], "")
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

// update returns the update of a job's metadata.
func (r record) update() map[string]record { return map[string]record{rivertype.MetadataKeyOutput: r} }

func (r record) turn() time.Time { return time.UnixMicro(r.Turn) }
