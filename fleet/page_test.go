package fleet_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/FLEET.md shows what the tests use: its Go code is from the examples, and its
// user has the rights of TestLeastRights.
func TestPageIsTested(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	page, examples := read("../docs/FLEET.md"), words(read("example_test.go")+read("example/main.go"))
	blocks := regexp.MustCompile("(?s)```(go|redis)\n(.*?)```").FindAllStringSubmatch(page, -1)
	kinds := make(map[string]int)
	for _, block := range blocks {
		kinds[block[1]]++
		if block[1] == "go" && !strings.Contains(examples, words(block[2])) {
			t.Errorf("no example has\n%s", block[2])
		}
		if block[1] == "redis" && !strings.Contains(block[2], " "+strings.Join(rights, " ")+"\n") {
			t.Errorf("the rights are not %q:\n%s", rights, block[2])
		}
	}
	if kinds["go"] < 2 || kinds["redis"] != 1 {
		t.Errorf("the page has %v blocks", kinds)
	}
}
