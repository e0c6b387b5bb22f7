// Package letters implements the command awsretry-deliver letters, which lists the
// deliveries that failed for good, and sends them again.
package letters

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/term"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	cmd := cli.Parent(&cobra.Command{
		Use:   "letters",
		Short: "List the deliveries that failed for good, or send them again",
		Long: `A dead letter is a request that a delivery policy gave up: a file in a folder, with its body
and all its headers, credentials among them.`,
		Example: `  awsretry-deliver letters redrive --policy policy.json /var/lib/hooks`,
	})
	cmd.AddCommand(newList(s), newRedrive(s))
	return cmd
}

const nameWidth = len("20060102T150405.000000000Z-0123456789abcdef.letter")

// noLetters says that dir has no letters, and whether dir exists: its name may
// be misspelled.
func noLetters(dir string) string {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "No dead letters: " + term.OneLine(dir) + " does not exist"
	}
	return "No dead letters in " + term.OneLine(dir)
}

// errorText returns the text of an error for a line of a report.
func errorText(err error) string { return term.OneLine(term.WithoutPackages(err.Error())) }

// withoutSecrets returns the URL of a letter without what may be secret.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		address, _, _ := strings.Cut(address, "?")
		return term.OneLine(address)
	}
	return term.URL(u)
}
