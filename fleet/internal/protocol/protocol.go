// Package protocol defines the JSON messages between a process and the script of
// package fleet. Times are in milliseconds, rates in requests per second.
package protocol

// A Request asks for the renewal of a process's lease.
type Request struct {
	ID string `json:"id"`
	Last

	Settings string  `json:"settings"` // must be the same in all processes
	Pacing   string  `json:"pacing"`   // must be the same, too; "" if the process cannot lead
	Lease    float64 `json:"lease"`
	Expiry   float64 `json:"expiry"`

	SeedRate   float64 `json:"seedRate"`   // if the key is new
	SeedTokens int     `json:"seedTokens"` // if the key is new
	Leaving    bool    `json:"leaving"`

	Sums // since the last renewal that succeeded
	Law  // found by the leader

	Wanted float64 `json:"wanted"` // send tokens in half a lease
	Unused float64 `json:"unused"` // send tokens of the last grant

	MaxRate float64 `json:"maxRate"` // of all processes; 0 means no limit
	Ends    float64 `json:"ends"`    // when the process's lease ends, on the store's clock
	Away    float64 `json:"away"`    // time that a reply takes
	Since   float64 `json:"since"`   // time since the last renewal; at most a lease

	Capacity int     `json:"capacity"` // of the retry token bucket of a process alone
	PerCall  int     `json:"perCall"`  // retry tokens that the retries of a call cost at most
	Traffic  float64 `json:"traffic"`  // retry tokens that calls add to the capacity for a minute; negative if it is fixed
	Spare    int     `json:"spare"`    // tokens that the process adds for retries after throttling
	Spared   int     `json:"spared"`   // how many of Asked may be spare tokens
	Returned int     `json:"returned"` // retry tokens
	Asked    int     `json:"asked"`
	Held     int     `json:"held"`
	Counted  int     `json:"counted"` // what the store has recorded as held

	Gate    float64 `json:"gate"`    // until the end of a Retry-After
	Said    string  `json:"said"`    // limits that the service announced; "" means none
	SaidAge float64 `json:"saidAge"` // time since the request whose response had them
}

// A Last is the part of a reply that a process repeats in its next request.
type Last struct {
	Epoch    string  `json:"epoch"`    // changes when the key is re-created; "" in a first request
	Now      float64 `json:"now"`      // on the store's clock
	Renewals float64 `json:"renewals"` // of the key so far
	Share    float64 `json:"share"`    // this process's part of the rate
	Part     float64 `json:"part"`     // fraction of a fair share that this process wants, at most 1
	Credit   float64 `json:"credit"`   // slots of the process's fair share that it has not been granted
}

// A Law is the rate of all processes, with what another leader needs to continue
// from it.
type Law struct {
	Rate  float64 `json:"rate"`  // 0 means not limited; in a request, negative means not found
	Limit float64 `json:"limit"` // the rate that was throttled; 0 if unknown
	Trip  float64 `json:"trip"`  // the time until a throttling response arrives; 0 if unknown
}

// Sums counts the requests of one process, or of all processes.
type Sums struct {
	Sent      float64 `json:"sent"`
	Throttled float64 `json:"throttled"`
	Trips     float64 `json:"trips"` // total time of TripsOf round trips of throttled requests
	TripsOf   float64 `json:"tripsOf"`
}

// Add adds t to s.
func (s *Sums) Add(t Sums) {
	s.Sent += t.Sent
	s.Throttled += t.Throttled
	s.Trips += t.Trips
	s.TripsOf += t.TripsOf
}

// A Reply is what the script returns.
type Reply struct {
	// Differs names a setting that the other processes have with another value,
	// Theirs. Then nothing has been renewed.
	Differs string `json:"differs,omitempty"`
	Theirs  string `json:"theirs,omitempty"`

	Last

	Law
	Members float64 `json:"members"`
	Leader  bool    `json:"leader"` // this process finds the rate
	Sums            // of all processes since the leader's last renewal; for the leader only

	// With a MaxRate, requests are sent in slots only.
	Slots float64 `json:"slots"` // how many are granted to this process
	At    float64 `json:"at"`    // the time until the first one
	Every float64 `json:"every"` // the time between two

	MaxRate float64 `json:"maxRate"` // the lowest one of all processes
	Opens   float64 `json:"opens"`   // time until slots are granted; the process has no new lease until then

	Tokens float64 `json:"tokens"` // retry tokens that are granted to this process
	Left   float64 `json:"left"`   // retry tokens in the store
	Spare  float64 `json:"spare"`  // retry tokens in the store for retries after throttling

	Gate    float64 `json:"gate"` // until the end of a Retry-After
	Said    string  `json:"said"`
	SaidAge float64 `json:"saidAge"`
}
