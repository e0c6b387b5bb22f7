package settings

import (
	"bufio"
	"maps"
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/internal/awsconfig"
	"example.com/awsretry/internal/regularfile"
)

// RegisterProfile adds the flag --profile to set. Shells complete the profiles
// of the files that getenv names.
func RegisterProfile(set *pflag.FlagSet, profile *cli.Word, getenv func(string) string) {
	profile.Kind = "PROFILE"
	profile.Among = func() []string { return profiles(getenv) }
	set.Var(profile, "profile", "the profile of the shared config file, in place of AWS_PROFILE")
}

var header = regexp.MustCompile(`^\[\s*(?:profile\s+)?([^\]\s]+)\s*\]`)

// profiles returns the profiles of the shared files, in alphabetical order. A file
// that cannot be read has none: completion cannot show an error.
func profiles(getenv func(string) string) []string {
	names := make(map[string]bool)
	config, credentials := awsconfig.Source{Getenv: getenv}.Files()
	for _, path := range []string{config.Path, credentials.Path} {
		f, _, err := regularfile.Open(path)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if found := header.FindStringSubmatch(lines.Text()); found != nil {
				names[found[1]] = true
			}
		}
		f.Close()
	}
	return slices.Sorted(maps.Keys(names))
}
