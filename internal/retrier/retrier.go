// Package retrier marks the RoundTrippers of this module that retry, so that one
// can refuse to send through another without importing its package.
package retrier

// A Mark is embedded in a RoundTripper that retries.
type Mark struct{}

func (Mark) retries() {}

// Is reports whether v has a Mark.
func Is(v any) bool {
	_, ok := v.(interface{ retries() })
	return ok
}
