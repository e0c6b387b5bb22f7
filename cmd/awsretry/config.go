package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/awsretry"
	"github.com/spf13/cobra"
)

func newConfig(p process) *cobra.Command {
	var (
		profile string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, and where each comes from",
		Long: `Prints the retry settings in force, and where each comes from: the environment (AWS_RETRY_MODE, AWS_MAX_ATTEMPTS,
AWS_NEW_RETRIES_2026), else the profile in the shared credentials file, else in the shared config file, else the default.

The files are ~/.aws/config and ~/.aws/credentials, or those that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name. A
value that is not allowed is an error that says where it stands.`,
		Example: `  awsretry config
  awsretry config --profile production
  AWS_RETRY_MODE=adaptive awsretry config --json`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			settings, err := awsretry.Source{Profile: profile, Getenv: p.getenv}.Resolve()
			if err != nil {
				return err
			}
			rows := settingRows(settings, profile, p.getenv)
			if asJSON {
				return failed(writeSettingsJSON(p.stdout, rows))
			}
			return failed(writeSettings(p.stdout, rows, newPalette(p, p.stdout)))
		},
	}
	cmd.Flags().StringVar(&profile, "profile", "", "`PROFILE` of the shared config file, in place of AWS_PROFILE")
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

func writeSettings(w io.Writer, rows []settingRow, palette palette) error {
	const nameWidth = len("max_attempts")
	valueWidth := len("VALUE")
	for _, r := range rows {
		valueWidth = max(valueWidth, utf8.RuneCountInString(fmt.Sprint(r.value)))
	}
	line := palette.faint(left("SETTING", nameWidth)+"  "+left("VALUE", valueWidth)+"  FROM") + "\n"
	for _, r := range rows {
		from := oneLine(r.from)
		if r.from == "default" {
			from = palette.faint(from)
		}
		line += left(r.name, nameWidth) + "  " + palette.bold(left(oneLine(fmt.Sprint(r.value)), valueWidth)) + "  " + from + "\n"
	}
	_, err := io.WriteString(w, line)
	return err
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
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(object)
}
