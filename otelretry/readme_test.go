package otelretry_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"example.com/awsretry"
)

// Every block of Go in the README stands in an example that is run; only "quick", which spares the examples the pauses, is
// left out of it.
func TestReadmeCodeIsInTheExamples(t *testing.T) {
	examples := strings.ReplaceAll(normal(t, "example_test.go"), ", Backoff: quick", "")
	examples = strings.ReplaceAll(examples, "Backoff: quick", "")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 3 {
		t.Errorf("%d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(examples, strings.Join(strings.Fields(block[1]), " ")) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
}

func normal(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// The README's table has every instrument and its unit.
func TestReadmeTable(t *testing.T) {
	readme := normal(t, "README.md")
	rt, reader := instrumented(t, &awsretry.Transport{Base: plain(429), Mode: awsretry.Adaptive, MaxAttempts: 1})
	get(t, t.Context(), rt)
	metrics := collected(t, reader, "")
	if len(metrics) != 9 {
		t.Errorf("%d metrics: %q", len(metrics), metrics)
	}
	for _, m := range metrics {
		name, rest, _ := strings.Cut(m, "[")
		unit, _, _ := strings.Cut(rest, "]")
		row := regexp.MustCompile("\\| `" + regexp.QuoteMeta(name) + "` \\| (counter|histogram|gauge) \\| `" + regexp.QuoteMeta(unit) + "` \\|")
		if !row.MatchString(readme) {
			t.Errorf("no row has %s", row)
		}
	}
}
