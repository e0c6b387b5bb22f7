package awsretry

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/awsretry/internal/awsconfig"
)

// The settings' names: AWS SDKs and Tools Reference Guide, "Retry behavior".
const (
	modeVariable        = "AWS_RETRY_MODE"
	maxAttemptsVariable = "AWS_MAX_ATTEMPTS"
	revisionVariable    = "AWS_NEW_RETRIES_2026"

	profileVariable        = "AWS_PROFILE"
	defaultProfileVariable = "AWS_DEFAULT_PROFILE"
	configVariable         = "AWS_CONFIG_FILE"
	credentialsVariable    = "AWS_SHARED_CREDENTIALS_FILE"

	defaultProfile = "default"
	fromDefault    = "default"
)

// A Source says where retry settings are read from: the environment, and the
// files that the AWS SDKs and the AWS CLI share. The zero value is the
// environment of this process and the files in the user's home directory. A
// Source is a plain value and safe for concurrent use.
//
// The environment takes precedence over the credentials file, and that over the
// config file. Only Resolve and Load read the files, in each call. A file that
// does not exist is read as an empty file, even if a field or a variable names
// it.
type Source struct {
	// Profile is the name of the profile. "" means the value of AWS_PROFILE, or
	// of AWS_DEFAULT_PROFILE, or "default". A profile other than "default" must
	// be in at least one of the files.
	Profile string

	// ConfigFile is the path of the config file. "" means the value of
	// AWS_CONFIG_FILE, or ~/.aws/config.
	ConfigFile string

	// CredentialsFile is the path of the credentials file. "" means the value of
	// AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials.
	CredentialsFile string

	// Getenv returns the value of an environment variable, or "" if it is not
	// set. Nil means os.Getenv. It must be safe for concurrent use if the Source
	// is used concurrently. The home directory is HOME, or that of
	// os.UserHomeDir if HOME is not set. A path that Getenv returns may begin
	// with ~/ for the home directory.
	Getenv func(string) string
}

// Settings are the retry settings of a [Source], and where each one came from:
// "environment AWS_RETRY_MODE", "/home/me/.aws/config [profile p] retry_mode"
// or "default".
type Settings struct {
	Mode        Mode     // never ""
	MaxAttempts int      // attempts in all, the first included; the mode's default if nothing sets it
	Revision    Revision // Revision2026 if AWS_NEW_RETRIES_2026 is true, otherwise Classic

	ModeFrom, MaxAttemptsFrom, RevisionFrom string
}

// Load returns a new Transport with the Mode, MaxAttempts and Revision of src.
// MaxAttempts is 0 if nothing sets it, so that it follows a Mode that the
// caller sets later, and so is Revision. All other fields are zero. The errors
// are those of [Source.Resolve].
func Load(src Source) (*Transport, error) {
	s, err := src.Resolve()
	if err != nil {
		return nil, err
	}
	t := &Transport{Mode: s.Mode}
	if s.MaxAttemptsFrom != fromDefault {
		t.MaxAttempts = s.MaxAttempts
	}
	if s.RevisionFrom != fromDefault {
		t.Revision = s.Revision
	}
	return t, nil
}

// Resolve reads the settings by the rules of the AWS SDKs and Tools Reference
// Guide, "Retry behavior".
//
// It returns an error in these cases:
//
//   - The value of a setting is not valid, and no stronger source overrides it.
//   - The profile is not "default" and is in neither file.
//   - The profile has a line that cannot be read, its header included, or more
//     than 64 different keys that begin with retry_mode or max_attempts.
//   - A file exists but cannot be read, is not a regular file, is UTF-16 text,
//     has lines but no section, or is larger than 16 MiB. The null device is
//     read as an empty file.
//
// The error names the setting, its value, where it came from and what is
// allowed; errors.Is finds the error of the file system. It never contains the
// text of a line that cannot be read, which may be a secret.
func (src Source) Resolve() (Settings, error) {
	env := src.environment()
	config, credentials, err := src.readProfile(env)
	if err != nil {
		return Settings{}, err
	}

	var s Settings
	mode := firstSet(env.value(modeVariable), setting(credentials.RetryMode), setting(config.RetryMode))
	if s.Mode, s.ModeFrom, err = mode.mode(); err != nil {
		return Settings{}, err
	}
	attempts := firstSet(env.value(maxAttemptsVariable), setting(credentials.MaxAttempts), setting(config.MaxAttempts))
	if s.MaxAttempts, s.MaxAttemptsFrom, err = attempts.maxAttempts(s.Mode); err != nil {
		return Settings{}, err
	}
	if s.Revision, s.RevisionFrom, err = env.value(revisionVariable).revision(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// Files returns the paths of the config file and the credentials file that
// Resolve reads, whether they exist or not. A path is "" if it would be in a
// home directory that is not known. A caller who wants to warn about a missing
// file has to check for it, since Resolve reads it as an empty file.
func (src Source) Files() (config, credentials string) {
	configFile, credentialsFile := src.files(src.environment())
	return configFile.Path, credentialsFile.Path
}

// files is Files, for an environment.
func (src Source) files(env environment) (config, credentials awsconfig.File) {
	config = awsconfig.File{Path: src.ConfigFile, Config: true}
	if config.Path == "" {
		config.Path = env.path(configVariable, "config")
	}
	credentials = awsconfig.File{Path: src.CredentialsFile}
	if credentials.Path == "" {
		credentials.Path = env.path(credentialsVariable, "credentials")
	}
	return config, credentials
}

func (src Source) environment() environment {
	if src.Getenv == nil {
		return environment{os.Getenv}
	}
	return environment{src.Getenv}
}

// readProfile returns the profile of each of the two files.
func (src Source) readProfile(env environment) (config, credentials awsconfig.Profile, err error) {
	named := firstSet(setting{Text: src.Profile, From: "Source.Profile"},
		env.value(profileVariable), env.value(defaultProfileVariable), setting{Text: defaultProfile})
	name := named.Text
	configFile, credentialsFile := src.files(env)
	if config, err = configFile.Profile(name); err != nil {
		return config, credentials, err
	}
	if credentials, err = credentialsFile.Profile(name); err != nil {
		return config, credentials, err
	}
	if name != defaultProfile && !config.Found && !credentials.Found {
		return config, credentials, fmt.Errorf("awsretry: %s is %s; it must be a profile that is in %s "+
			"as [profile NAME] or in %s as [NAME], named with letters, digits and %s",
			named.From, quoted(name), configFile, credentialsFile, awsconfig.NamePunctuation)
	}
	return config, credentials, nil
}

// An environment is the environment variables of a Source.
type environment struct{ getenv func(string) string }

func (e environment) value(variable string) setting {
	return setting{Text: strings.TrimSpace(e.getenv(variable)), From: "environment " + variable}
}

// path returns the path in the variable, or that of the named file in ~/.aws if
// the variable is not set. It returns "" if the home directory is not known.
func (e environment) path(variable, name string) string {
	path := e.getenv(variable)
	switch {
	case path == "":
		home := e.home()
		if home == "" {
			return ""
		}
		return filepath.Join(home, ".aws", name)
	case len(path) > 1 && path[0] == '~' && os.IsPathSeparator(path[1]):
		if home := e.home(); home != "" {
			return filepath.Join(home, path[1:])
		}
	}
	return path
}

// home returns the home directory, or "" if it is not known.
func (e environment) home() string {
	if home := e.getenv("HOME"); home != "" {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// A setting is the value of a setting before it is parsed.
type setting awsconfig.Value

// firstSet returns the first of the settings that is set, or one that is not.
func firstSet(settings ...setting) setting {
	for _, s := range settings {
		if s.isSet() {
			return s
		}
	}
	return setting{}
}

func (s setting) isSet() bool { return s.Text != "" || s.ContinuedAt != 0 }

func (s setting) mode() (Mode, string, error) {
	if !s.isSet() {
		return Standard, fromDefault, nil
	}
	for _, m := range []Mode{Standard, Adaptive, Legacy} {
		if s.is(string(m)) {
			return m, s.From, nil
		}
	}
	return "", "", s.mustBe("standard, adaptive or legacy")
}

func (s setting) maxAttempts(m Mode) (int, string, error) {
	if !s.isSet() {
		return defaultAttempts(m), fromDefault, nil
	}
	const allowed = "a whole number above 0 in decimal digits (1: never retry)"
	n, err := strconv.Atoi(s.Text)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "", s.mustBe(fmt.Sprintf("%s and at most %d", allowed, math.MaxInt))
	}
	if err != nil || n < 1 || s.Text[0] == '+' || s.ContinuedAt != 0 {
		return 0, "", s.mustBe(allowed)
	}
	return n, s.From, nil
}

func (s setting) revision() (Revision, string, error) {
	switch {
	case !s.isSet():
		return Classic, fromDefault, nil
	case s.is("true"):
		return Revision2026, s.From, nil
	case s.is("false"):
		return Classic, s.From, nil
	}
	return Classic, "", s.mustBe("true or false")
}

// is reports whether the setting is the word, in any case of its letters.
func (s setting) is(word string) bool { return s.ContinuedAt == 0 && sameWord(s.Text, word) }

// mustBe returns the error of a setting whose value is not allowed.
func (s setting) mustBe(allowed string) error {
	continued := ""
	if s.ContinuedAt != 0 {
		continued = fmt.Sprintf(" and goes on in line %d, which is indented", s.ContinuedAt)
	}
	return fmt.Errorf("awsretry: %s is %s%s; it must be %s", s.From, quoted(s.Text), continued, allowed)
}

// sameWord compares two words without regard to the case of ASCII letters.
// strings.EqualFold would also match the long s of "ſtandard" with an s.
func sameWord(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lowerASCII(a[i]) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// quoted returns s in quotes for an error message, cut to a readable length.
func quoted(s string) string {
	const limit = 80
	if len(s) <= limit {
		return strconv.Quote(s)
	}
	end := limit
	for end > limit-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:end], len(s))
}
