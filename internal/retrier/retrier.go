// Package retrier marks the RoundTrippers of this module that retry, so that one
// can refuse to send through another without importing its package.
package retrier

// A Retrier has a Mark embedded.
type Retrier interface{ retries() }

// A Mark is embedded in a RoundTripper that retries.
type Mark struct{}

func (Mark) retries() {}
