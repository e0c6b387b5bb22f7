package deliveryqueue

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func readPage(t *testing.T, name string) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile(name)))
}

// TestPageIsTested compares docs/DELIVERYQUEUE.md and docs/OPERATIONS.md with the
// code: their Go code is in an example, their guarantees name a test, and their times
// are those in the code.
func TestPageIsTested(t *testing.T) {
	t.Parallel()
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	page := readPage(t, "../docs/DELIVERYQUEUE.md") + readPage(t, "../docs/OPERATIONS.md")

	var examples strings.Builder
	for _, name := range []string{"example_test.go", "otelqueue/example_test.go", "../interop/clients/deadletter_sqs_test.go"} {
		examples.WriteString(readPage(t, name))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page+readPage(t, "../docs/ENDPOINTS.md"), -1)
	if len(blocks) < 4 { // door 3 of the README has the fifth, which package docs tests
		t.Errorf("only %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(words(examples.String()), words(block[1])) {
			t.Errorf("no example has\n%s", block[1])
		}
	}

	_, holds, _ := strings.Cut(page, "\n## What holds\n")
	holds, _, _ = strings.Cut(holds, "\nOrder is not promised")
	items := strings.Split(holds, "\n- **")[1:]
	if len(items) < 8 {
		t.Errorf("only %d things hold", len(items))
	}
	for _, item := range items {
		if !strings.Contains(item, "`Test") {
			t.Errorf("no test is named of what holds: %s", item)
		}
	}

	const late = longestWait + settleTimeout + rescueSlack
	for _, want := range []string{
		fmt.Sprintf("`AttemptTimeout` and %.0f s |", (late + step).Seconds()),
		fmt.Sprintf("`AttemptTimeout` and %.0f s, from the beginning", late.Seconds()),
		fmt.Sprintf("`PollInterval` (%d ms)", defaultPollInterval/time.Millisecond),
		fmt.Sprintf("`Config.MaxBody`, %d KiB", defaultMaxBody>>10),
		fmt.Sprintf("`MaxBody` can be up to %d MiB", largestMaxBody>>20),
		fmt.Sprintf("`KeepDelivered` (%.0f hours)", defaultKeepDelivered.Hours()),
		fmt.Sprintf("`AttemptTimeout` (%.0f s, as Amazon SNS waits)", defaultAttemptTimeout.Seconds()),
		fmt.Sprintf("%d ms later than its turn", tooLate/time.Millisecond),
		fmt.Sprintf("statements wait for %.0f s", lockWait.Seconds()),
		fmt.Sprintf("tried again for %.0f s", settleTimeout.Seconds()),
		fmt.Sprintf("%.0f s for what does not end", cutOff.Seconds()),
		fmt.Sprintf("`List` reads %d at a time", pageSize),
	} {
		if !strings.Contains(words(page), words(want)) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(readPage(t, "go.sum"), "github.com/aws/") { // users would get it, too
		t.Error("a module of the AWS SDK is needed")
	}
}

// TestSettingsAreComplete finds every field of Config, Options and Filter in
// docs/SETTINGS.md.
func TestSettingsAreComplete(t *testing.T) {
	t.Parallel()
	text := readPage(t, "../docs/SETTINGS.md")
	_, text, _ = strings.Cut(text, "\n## deliveryqueue\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, settings := range []any{Config{}, Options{}, Filter{}} {
		typ := reflect.TypeOf(settings)
		for i := range typ.NumField() {
			if name := typ.Field(i).Name; !strings.Contains(text, "\n| `"+name+"` |") {
				t.Errorf("docs/SETTINGS.md does not have %v.%s", typ, name)
			}
		}
	}
}
