package awsretry

// WithoutJitter makes the pauses of t's mode and revision come without their jitter: b = 1 in the documents' vectors.
func WithoutJitter(t *Transport) {
	e, err := t.resolve()
	if err != nil {
		panic(err)
	}
	plain := *e
	plain.backoff = withoutJitter(e.backoff)
	if e.dynamoDB != nil {
		plain.dynamoDB = &dynamoDBRules{e.dynamoDB.attempts, withoutJitter(e.dynamoDB.backoff)}
	}
	t.config.Store(&plain)
}

func withoutJitter(b Backoff) Backoff {
	if e, ok := b.(Exponential); ok {
		e.Jitter = NoJitter
		return e
	}
	return b
}
