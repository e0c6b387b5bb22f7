package pacing

import "time"

// Tuning are the constants of [Scaled]. docs/ALGORITHM.md says what they are
// good for, and docs/decisions/scaled-pacing.md why they have these values.
// The program bench/pacing measures other values.
type Tuning struct {
	// Recovery after a cut.
	RiseTime      float64 // seconds until the rate is back at the limit, at least
	RiseTrips     float64 // round trips that are added to it
	LongestRise   float64 // seconds, without the round trips
	LongestSparse float64 // seconds: the longest recovery that a high share of throttling causes
	Sparse        float64 // seconds at 1/s, by the square of the rate: the same by the rate
	Predictable   float64 // seconds at 1/s, by the square of the rate: the recovery where the limit is predictable
	UsualShare    float64 // of responses throttled, in a fleet of clients
	ShareMemory   float64 // responses over which the share is smoothed

	// Search for a higher limit.
	Step          float64       // of the limit, after the first SearchTime, and 8 and 27 times that after two and three
	SearchTime    float64       // seconds
	SearchAlone   float64       // the same where the limit is predictable
	Back          float64       // the rate is back at the limit from this part of it on
	Agreement     float64       // two limits are the same within this part
	Agreements    int           // so many of them make the limit predictable
	MostUnused    float64       // times the measured rate
	ManyOutcomes  int           // make a measurement that a cut can rely on
	Steady        float64       // the last measurement is within this part of those before it
	Denials       int           // cuts in a row between which nothing is accepted, until the cuts are deeper
	DeniedBeta    float64       // fraction of the limit that such a cut leaves, apart from the usual one
	BurstSeconds  float64       // tokens saved up, in seconds at the present rate
	LongestTrip   time.Duration // a longer one counts as this
	TripSmoothing float64       // round trips over which their mean is smoothed

	// Start.
	Doubling      time.Duration // time in which the rate doubles, at least
	PerDoubling   float64       // requests in that time, at least
	SlowStart     float64       // requests per second that are tried whatever is measured
	FastestGrowth float64       // times the measured rate
	StartShare    float64       // of responses throttled, that the start takes for usual
	StartExcess   float64       // share of throttling above StartShare that the start takes for overload
	StartEnough   float64       // log of the odds of that which ends the start

	// Cuts where a share is throttled at any rate, the background.
	Excess           float64       // share of throttling above the background that cuts
	FalseAlarm       float64       // seconds: about how often chance may cut the rate
	ProbeAfter       time.Duration // until the rate is lowered although nothing is wrong
	SureAfter        time.Duration // the same when the background has the highest odds
	Low              float64       // a rate below this part of the limit shows the background
	Below            float64       // a share below this part of the background lowers it at any rate
	BackgroundMemory float64       // responses over which the background is smoothed, at least
	MemorySeconds    float64       // the same, in seconds at the present rate
	MostLearned      float64       // times the share that was found first
	MostOdds         float64       // the highest log of the odds

	// The search for a background.
	NoLuck         float64 // so many throttled responses in a row do not stay away by luck
	Fall           float64 // the rate fell by this factor below what was accepted
	HighShare      float64 // or so much is throttled
	ManyFallen     int     // of so many responses
	MostBackground float64 // share; a higher one is a limit below the rate
	HoldAt         float64 // fraction of the limit that a look leaves
	Fewer          float64 // times fewer throttled responses show that there is none
	ForBackground  float64 // log of the odds that finds a background
	AgainstIt      float64 // the same, below 0, that rejects it
	Guard          float64 // times more throttled responses show a limit below the rate
	MostGuard      float64 // share: the same, at most
	GuardEnough    float64 // log of the odds of that which ends a look
	MostShown      float64 // log of the odds that one look shows, at most
	LookTime       float64 // seconds
	LeastLook      float64 // responses in a look
	LeastShown     float64 // log of the odds that it is expected to show
	Sunk           float64 // a rate that fell by this factor looks in any case
}

// DefaultTuning returns the constants that [NewScaled] sets.
func DefaultTuning() Tuning {
	return Tuning{
		RiseTime:      6,
		RiseTrips:     12,
		LongestRise:   60,
		LongestSparse: 20,
		Sparse:        200,
		Predictable:   600,
		UsualShare:    0.025,
		ShareMemory:   200,

		Step:          0.08,
		SearchTime:    3,
		SearchAlone:   1,
		Back:          0.997,
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
		PerDoubling:   1.5,
		SlowStart:     20,
		FastestGrowth: 4,
		StartShare:    0.15,
		StartExcess:   0.3,
		StartEnough:   5.5,

		Excess:           0.1,
		FalseAlarm:       12,
		ProbeAfter:       6 * time.Second,
		SureAfter:        15 * time.Second,
		Low:              0.97,
		Below:            0.8,
		BackgroundMemory: 150,
		MemorySeconds:    3,
		MostLearned:      1.3,
		MostOdds:         6,

		NoLuck:         5,
		Fall:           2,
		HighShare:      0.05,
		ManyFallen:     60,
		MostBackground: 0.4,
		HoldAt:         0.6,
		Fewer:          8,
		Guard:          5,
		MostGuard:      0.6,
		GuardEnough:    8,
		MostShown:      1.6,
		LookTime:       4,
		LeastLook:      16,
		LeastShown:     1,
		Sunk:           16,
		ForBackground:  5,
		AgainstIt:      3,
	}
}
