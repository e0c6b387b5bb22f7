package otelretry_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Every block of Go in the README is in an example. Only the examples set
// quick.
func TestReadmeCodeIsInTheExamples(t *testing.T) {
	examples := strings.ReplaceAll(words(t, "example_test.go"), ", Backoff: quick", "")
	examples = strings.ReplaceAll(examples, "Backoff: quick", "")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 3 {
		t.Errorf("the README has %d blocks of Go, want 3", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(examples, strings.Join(strings.Fields(block[1]), " ")) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
}

// words returns a file with one space between its words.
func words(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// The README's table has every instrument and its unit.
func TestReadmeTable(t *testing.T) {
	readme := words(t, "README.md")
	rt, reader := instrumented(t, &awsretry.Transport{
		Base: httpfake.Statuses(429), Mode: awsretry.Adaptive, MaxAttempts: 1,
	})
	get(t, t.Context(), rt)
	metrics := collected(t, reader, "")
	if len(metrics) != 9 {
		t.Errorf("%d metrics, want 9: %q", len(metrics), metrics)
	}
	for _, m := range metrics {
		name, rest, _ := strings.Cut(m, "[")
		unit, _, _ := strings.Cut(rest, "]")
		row := regexp.MustCompile(fmt.Sprintf("\\| `%s` \\| (counter|histogram|gauge) \\| `%s` \\|",
			regexp.QuoteMeta(name), regexp.QuoteMeta(unit)))
		if !row.MatchString(readme) {
			t.Errorf("no row has %s", row)
		}
	}
}
