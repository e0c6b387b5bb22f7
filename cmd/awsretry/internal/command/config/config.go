// Package config implements the command awsretry config, which prints the settings
// in force.
package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"example.com/awsretry"
	"example.com/awsretry/cmd/awsretry/internal/settings"
	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/printer"
	"example.com/awsretry/cmd/internal/term"
)

// New returns the command.
func New(s term.Streams) *cobra.Command {
	var (
		profile cli.Word
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, and where each comes from",
		Long: `Prints the retry settings in force, and where each comes from: the environment (AWS_RETRY_MODE,
AWS_MAX_ATTEMPTS, AWS_NEW_RETRIES_2026), else the profile in the shared credentials file, else in the shared config
file, else the default.

The files are ~/.aws/config and ~/.aws/credentials, or those that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name.
A value that is not allowed is an error that says where the value is. A variable that names a file which does not exist
leads to a warning.`,
		Example: `  awsretry config
  awsretry config --profile production
  AWS_RETRY_MODE=adaptive awsretry config --json`,
		Args: cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			for _, warning := range settings.MissingFiles(s.Getenv) {
				s.Warn("awsretry config", warning, false)
			}
			resolved, err := awsretry.Source{Profile: profile.Value, Getenv: s.Getenv}.Resolve()
			if err != nil {
				return cli.Failed(err)
			}
			rows := rowsOf(resolved, profile.Value, s.Getenv)
			if asJSON {
				return cli.Failed(writeJSON(s.Out, rows))
			}
			return cli.Failed(writeTable(s, rows))
		},
	}
	settings.RegisterProfile(cmd.Flags(), &profile)
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"print a JSON object: for each setting its value and where it came from")
	return cmd
}

// A row is a setting in force. Its name is the name in the shared config file, if
// the setting has one.
type row struct {
	name  string
	value any
	from  string
}

func rowsOf(s awsretry.Settings, profile string, getenv func(string) string) []row {
	profileFrom := "flag --profile"
	for _, variable := range []string{"AWS_PROFILE", "AWS_DEFAULT_PROFILE"} {
		if profile == "" {
			profile, profileFrom = strings.TrimSpace(getenv(variable)), "environment "+variable
		}
	}
	if profile == "" {
		profile, profileFrom = "default", "default"
	}
	return []row{
		{"profile", profile, profileFrom},
		{"retry_mode", string(s.Mode), s.ModeFrom},
		{"max_attempts", s.MaxAttempts, s.MaxAttemptsFrom},
		{"revision", revisionName(s.Revision), s.RevisionFrom},
	}
}

func revisionName(r awsretry.Revision) string {
	switch r {
	case awsretry.Classic:
		return "classic"
	case awsretry.Revision2026:
		return "2026"
	}
	return strconv.Itoa(int(r))
}

func writeTable(s term.Streams, rows []row) error {
	valueWidth := len("VALUE")
	for _, r := range rows {
		valueWidth = max(valueWidth, text.StringWidth(r.text()))
	}
	p := printer.New(s, s.Out, false, []term.Column{
		{Title: "SETTING", Width: len("max_attempts")}, {Title: "VALUE", Width: valueWidth}, {Title: "FROM"},
	})
	p.Header()
	for _, r := range rows {
		from := term.OneLine(r.from)
		if from == "default" {
			from = p.Palette.Faint(from)
		}
		p.Table.Row(r.name, p.Palette.Bold(r.text()), from)
	}
	return p.Out.Err
}

func (r row) text() string { return term.OneLine(fmt.Sprint(r.value)) }

func writeJSON(w io.Writer, rows []row) error {
	type value struct {
		Value any    `json:"value"`
		From  string `json:"from"`
	}
	object := make(map[string]value)
	for _, r := range rows {
		object[r.name] = value{r.value, r.from}
	}
	encoder := term.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(object)
}
