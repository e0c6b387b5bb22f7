package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

// docs/SIMULATE.md shows a scenario, the commands that run it, and what they print.
func TestDashboard(t *testing.T) {
	const docs = "../../../../../docs"
	const example = "docs/examples/dashboard.yaml"
	page := string(clitest.Must[[]byte](t)(os.ReadFile(filepath.Join(docs, "SIMULATE.md"))))
	_, file, _ := strings.Cut(string(clitest.Must[[]byte](t)(os.ReadFile(filepath.Join(docs, "..", example)))), "\n\n")
	if !strings.Contains(page, "```yaml\n"+file+"```") {
		t.Errorf("docs/SIMULATE.md does not show %s", example)
	}
	commands := regexp.MustCompile(`(?m)^awsretry (simulate `+example+`.*)$`).FindAllStringSubmatch(page, -1)
	if len(commands) != 3 {
		t.Fatalf("%d commands run the example: %q", len(commands), commands)
	}
	for i, mechanism := range []string{"rate limit", "queue", "chance"} {
		args := strings.Fields(strings.Replace(commands[i][1], example, filepath.Join(docs, "..", example), 1))
		r := clitest.Shell{}.Run(t, New, append(args, "--json")...)
		var result struct {
			Outcomes []struct {
				Failed float64 `json:"failed_share"`
			}
		}
		if err := json.Unmarshal([]byte(r.Out), &result); err != nil {
			t.Fatalf("%q: %v in %+v", args, err, r)
		}
		row := "| " + mechanism + " |"
		for _, o := range result.Outcomes {
			row += fmt.Sprintf(" %.1f %% |", 100*o.Failed)
		}
		if !strings.Contains(page, "\n"+row+"\n") {
			t.Errorf("docs/SIMULATE.md does not have the row\n%s", row)
		}
	}
}
