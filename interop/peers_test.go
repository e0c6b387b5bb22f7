package interop

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// A peer is a library for retries, with what it promises.
type peer struct {
	name, module string
	promises     []promise
}

// A promise is one that a peer makes in its documents. A scene shows what comes
// of it with the peer and with awsretry.
type promise struct {
	says   string // in our words
	where  string // the peer's document
	scene  scene
	theirs wrapper
	ours   wrapper
	by     string // the fields of the Transport that ours sets; "": none
	it     string // the result with the peer
	we     string // the result with awsretry; "": the same
	why    string // the results differ
}

// A wrapper puts a library around a service. It may add notes to what is
// played.
type wrapper func(http.RoundTripper, *played) http.RoundTripper

// The peers keep the promises in docs/results/promises.md as it says, and so does
// awsretry.
func TestPeers(t *testing.T) {
	var tables strings.Builder
	for _, peer := range []peer{retryablehttpPeer(), rehttpPeer(), failsafePeer()} {
		fmt.Fprintf(&tables, "\n## %s %s\n\n| It promises | In | It does | awsretry does | Why not the same |\n"+
			"|---|---|---|---|---|\n", peer.name, moduleVersion(t, peer.module))
		for i, p := range peer.promises {
			t.Run(fmt.Sprint(peer.name, "/", i+1, " ", p.says), func(t *testing.T) {
				p.check(t, peer.name)
			})
			we := cmp.Or(p.we, "the same")
			if p.by != "" {
				we += ", with `" + p.by + "`"
			}
			fmt.Fprintf(&tables, "| %s | %s | %s | %s | %s |\n", p.says, p.where, p.it, we, p.why)
		}
	}
	checkDocument(t, "TestPeers$", "promises.md", "What the peers promise", tables.String())
}

func (p promise) check(t *testing.T, name string) {
	if (p.we != "") != (p.why != "") {
		t.Error("a difference needs a reason, and a reason needs a difference")
	}
	if got := p.scene.play(t, p.theirs); got != p.it {
		t.Errorf("%s does\n%s, the table says\n%s", name, got, p.it)
	}
	if got, want := p.scene.play(t, p.ours), cmp.Or(p.we, p.it); got != want {
		t.Errorf("awsretry does\n%s, the table says\n%s", got, want)
	}
}

// moduleVersion returns the version of a module in go.mod.
func moduleVersion(t *testing.T, module string) string {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\t"+module+" ")
	if !ok {
		t.Fatalf("go.mod does not require %s", module)
	}
	version, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(version)[0]
}

// checkDocument compares a page of docs/results with what the named test shows.
// If UPDATE is set, it writes the page.
func checkDocument(t *testing.T, test, page, title, tables string) {
	t.Helper()
	text := document(test, title, tables)
	if os.Getenv("UPDATE") != "" {
		writeDocument(t, page, text)
		return
	}
	old, err := os.ReadFile(filepath.Join(resultsFolder, page))
	if err != nil {
		t.Fatal(err)
	}
	if string(old) != text {
		t.Errorf("%s is not what the test shows; UPDATE=1 go test -run %s writes it. Document to test:\n%s",
			page, test, gocmp.Diff(strings.Split(string(old), "\n"), strings.Split(text, "\n")))
	}
}

// updateDocument writes a page of docs/results if UPDATE is set. Its figures
// differ from run to run.
func updateDocument(t *testing.T, test, page, title, tables string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		writeDocument(t, page, document(test, title, tables))
	}
}

const resultsFolder = "../docs/results"

func document(test, title, tables string) string {
	return fmt.Sprintf("# %s\n\nWritten by `cd interop && UPDATE=1 go test -run %s`.\n%s", title, test, tables)
}

func writeDocument(t *testing.T, page, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(resultsFolder, page), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
