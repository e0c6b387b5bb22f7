package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"example.com/awsretry"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func newConfig(p process) *cobra.Command {
	var (
		profile = word{kind: "PROFILE"}
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, and where each comes from",
		Long: `Prints the retry settings in force, and where each comes from: the environment (AWS_RETRY_MODE, AWS_MAX_ATTEMPTS,
AWS_NEW_RETRIES_2026), else the profile in the shared credentials file, else in the shared config file, else the default.

The files are ~/.aws/config and ~/.aws/credentials, or those that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name. A
value that is not allowed is an error that says where it stands; a variable that names a file which does not exist leads
to a warning.`,
		Example: `  awsretry config
  awsretry config --profile production
  AWS_RETRY_MODE=adaptive awsretry config --json`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			for _, warning := range missingFiles(p.getenv) {
				p.warn("config", warning)
			}
			settings, err := awsretry.Source{Profile: profile.value, Getenv: p.getenv}.Resolve()
			if err != nil {
				return namesFlag(err, profile.value)
			}
			rows := settingRows(settings, profile.value, p.getenv)
			if asJSON {
				return failed(writeSettingsJSON(p.stdout, rows))
			}
			return failed(writeSettings(p, rows))
		},
	}
	cmd.Flags().Var(&profile, "profile", profileUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object: for each setting its value and where it came from")
	return cmd
}

// A settingRow is a setting in force. Its names are those of the shared config file, where it has one there.
type settingRow struct {
	name  string
	value any
	from  string
}

func settingRows(s awsretry.Settings, profile string, getenv func(string) string) []settingRow {
	profileFrom := "flag --profile"
	if profile == "" {
		profile, profileFrom = strings.TrimSpace(getenv("AWS_PROFILE")), "environment AWS_PROFILE"
	}
	if profile == "" {
		profile, profileFrom = "default", "default"
	}
	return []settingRow{
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

func writeSettings(p process, rows []settingRow) error {
	valueWidth := len("VALUE")
	for _, r := range rows {
		valueWidth = max(valueWidth, text.StringWidth(oneLine(fmt.Sprint(r.value))))
	}
	palette := newPalette(p, p.stdout)
	out := &keptError{Writer: p.stdout}
	t := table{w: out, width: p.tableWidth(p.stdout), columns: []column{
		{title: "SETTING", width: len("max_attempts")}, {title: "VALUE", width: valueWidth}, {title: "FROM"},
	}}
	t.header(palette)
	for _, r := range rows {
		t.row([]string{r.name, oneLine(fmt.Sprint(r.value)), oneLine(r.from)}, func(column int) func(...any) string {
			switch {
			case column == 1:
				return palette.bold
			case column == 2 && r.from == "default":
				return palette.faint
			}
			return nil
		})
	}
	return out.err
}

func writeSettingsJSON(w io.Writer, rows []settingRow) error {
	type value struct {
		Value any    `json:"value"`
		From  string `json:"from"`
	}
	object := make(map[string]value)
	for _, r := range rows {
		object[r.name] = value{r.value, r.from}
	}
	encoder := newJSON(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(object)
}
