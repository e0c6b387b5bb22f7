package letters

import (
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/delivery/letters"
)

// A record is the outcome of a letter as JSON.
type record struct {
	Name      string         `json:"name"`
	Method    string         `json:"method,omitempty"`
	URL       string         `json:"url,omitempty"`
	Result    letters.Result `json:"result"`
	Attempts  int            `json:"attempts"`
	Status    int            `json:"status,omitempty"`
	Code      string         `json:"code,omitempty"`
	Error     string         `json:"error,omitempty"` // if there was no response, or the endpoint is not at fault
	Stop      string         `json:"stop,omitempty"`
	ElapsedMS float64        `json:"elapsed_ms"`
}

func newRecord(result letters.Record, sent *sending) record {
	r := record{
		Name:   result.Letter.Name,
		Method: result.Letter.Method,
		URL:    withoutSecrets(result.Letter.URL),
		Result: result.Result,
	}
	if isFault(result, sent) {
		r.Error = term.WithoutPackages(result.Err.Error())
	}
	if sent == nil {
		return r
	}
	r.Attempts, r.Code, r.Stop = sent.last.Number, sent.last.Code, string(sent.stop)
	r.ElapsedMS = float64(sent.elapsed.Microseconds()) / 1e3
	switch {
	case sent.last.Response != nil:
		r.Status = sent.last.Response.StatusCode
	case r.Error == "":
		r.Error = sent.err
	}
	return r
}

// isFault reports whether a letter has an error that is not an endpoint's: its file
// cannot be read or deleted.
func isFault(result letters.Record, sent *sending) bool {
	return result.Err != nil && (sent == nil || result.Result == letters.Delivered)
}
