package limitheaders

import (
	"net/http"
	"testing"
)

// A 304, or a response from a cache, is free.
func TestFree(t *testing.T) {
	for _, tt := range []struct {
		status      int
		name, value string
		want        bool
	}{
		{200, "Age", "0", false},
		{200, "Age", "1", true},
		{200, "Age", "x", false},
		{200, "X-Cache", "MISS", false},
		{200, "X-Cache", "Hit from cloudfront", true},
		{200, "Cache-Status", "edge; hit; ttl=30", true},
		{200, "X-Cache", "hit-for-pass", false},
		{200, "Cache-Status", "edge; fwd=miss", false},
		{304, "Age", "0", true},
		{429, "Age", "0", false},
	} {
		if got := Free(tt.status, http.Header{tt.name: {tt.value}}); got != tt.want {
			t.Errorf("%d, %s: %s: %v, want %v", tt.status, tt.name, tt.value, got, tt.want)
		}
	}
}
