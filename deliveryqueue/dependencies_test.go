package deliveryqueue

import (
	"bytes"
	"os"
	"testing"
)

// Who uses this package gets what its tests import in go.sum too.
func TestNoAWSSDK(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("github.com/aws/")) {
			t.Errorf("%s has a module of the AWS SDK", name)
		}
	}
}
