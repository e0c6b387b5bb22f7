package pacing

import "time"

// Tuning has the constants of [Scaled]. docs/ALGORITHM.md explains what they do,
// and docs/decisions/scaled-pacing.md why they have these values. What other
// values do, bench/pacing measures when they are in DefaultTuning.
type Tuning struct {
	// Recovery after a cut.
	RiseTime      float64 // seconds until the rate is back at the limit, at least
	RiseTrips     float64 // round trips that are added to it, up to LongestSparse
	LongestRise   float64 // seconds, so that a limit that rises is found within a minute
	LongestSparse float64 // seconds: the longest recovery that a high share of throttling causes
	Sparse        float64 // the same limit at a rate of 1/s; it falls with the square of the rate
	Predictable   float64 // seconds of recovery at 1/s if the limit is predictable; they fall with the square of the rate
	UsualShare    float64 // share of responses that is throttled in a fleet of clients
	ShareMemory   float64 // responses over which the share and the background are smoothed

	// Search for a higher limit.
	Step          float64       // of the limit, after the first SearchTime, and 8 and 27 times that after two and three
	SearchTime    float64       // seconds
	SearchAlone   float64       // the same if the limit is predictable
	Agreement     float64       // largest difference of limits that agree, as a fraction
	Agreements    int           // how many limits in a row must agree to make the limit predictable
	MostUnused    float64       // highest rate, as a multiple of the measured rate
	ManyOutcomes  int           // outcomes in a measurement that a cut can rely on
	Steady        float64       // largest deviation of such a measurement from earlier ones, as a fraction
	Denials       int           // cuts in a row between which nothing is accepted, before the cuts are deeper
	DeniedBeta    float64       // fraction of the limit that such a cut leaves, on top of the usual one
	BurstSeconds  float64       // capacity of the bucket, in seconds at the current rate
	LongestTrip   time.Duration // longer round trips count as this
	TripSmoothing float64       // round trips over which their mean is smoothed

	// Start.
	Doubling      time.Duration // time in which the rate doubles, at least
	SlowStart     float64       // requests per second that are tried whatever is measured
	FastestGrowth float64       // highest rate above that, as a multiple of the measured rate
	StartShare    float64       // share of throttled responses that the start takes for usual
	StartExcess   float64       // share of throttling above StartShare that the start takes for overload
	StartEnough   float64       // log odds of an overload that end the start

	// Cuts where a share is throttled at any rate, the background.
	Excess      float64       // share of throttling above the background that cuts
	FalseAlarm  float64       // seconds: about how often chance may cut the rate
	ProbeAfter  time.Duration // from the return to the limit until a look without a cut
	Foreign     float64       // a background is given up at a limit that is this many times lower than where it was found
	MostLearned float64       // highest background, as a multiple of the share that was found first

	// The search for a background.
	NoLuck         float64 // expected number of throttled responses whose absence is not luck
	Fall           float64 // the rate fell by this factor below what was accepted
	ManyFallen     int     // responses, if more than twice UsualShare is throttled
	MostBackground float64 // highest share; a higher one means that the limit is below the rate
	HoldAt         float64 // fraction of the limit to which a look lowers the rate
	Fewer          float64 // without a background, a look has this many times fewer throttled responses
	Certain        float64 // log odds at which a background is accepted, and the highest
	Against        float64 // log odds against a background at which it is rejected
	Guard          float64 // if the limit is below the rate of a look, the odds of a throttled response are this many times higher
	GuardEnough    float64 // log odds of a limit below the rate that end a look
	MostShown      float64 // highest log odds that one look shows
	LookTime       float64 // seconds
	LeastLook      float64 // fewest responses in a look
	LeastShown     float64 // lowest log odds that a look is expected to show
	Sunk           float64 // a rate that fell by this factor gets a look in any case
}

// DefaultTuning returns the constants that [NewScaled] sets.
func DefaultTuning() Tuning {
	return Tuning{
		RiseTime:      6,
		RiseTrips:     12,
		LongestRise:   45,
		LongestSparse: 20,
		Sparse:        200,
		Predictable:   600,
		UsualShare:    0.025,
		ShareMemory:   200,

		Step:          0.08,
		SearchTime:    3,
		SearchAlone:   1,
		Agreement:     0.03,
		Agreements:    2,
		MostUnused:    2,
		ManyOutcomes:  10,
		Steady:        0.15,
		Denials:       5,
		DeniedBeta:    0.55,
		BurstSeconds:  0.1,
		LongestTrip:   10 * time.Second,
		TripSmoothing: 8,

		Doubling:      500 * time.Millisecond,
		SlowStart:     20,
		FastestGrowth: 4,
		StartShare:    0.15,
		StartExcess:   0.3,
		StartEnough:   5.5,

		Excess:      0.1,
		FalseAlarm:  12,
		ProbeAfter:  9 * time.Second,
		Foreign:     4,
		MostLearned: 1.3,

		NoLuck:         5,
		Fall:           2,
		ManyFallen:     60,
		MostBackground: 0.4,
		HoldAt:         0.6,
		Fewer:          8,
		Guard:          5,
		GuardEnough:    8,
		MostShown:      1.6,
		LookTime:       4,
		LeastLook:      16,
		LeastShown:     1,
		Sunk:           16,
		Certain:        5,
		Against:        3,
	}
}
