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
)

// The settings' names: AWS SDKs and Tools Reference Guide, "Retry behavior".
const (
	modeVariable        = "AWS_RETRY_MODE"
	maxAttemptsVariable = "AWS_MAX_ATTEMPTS"
	revisionVariable    = "AWS_NEW_RETRIES_2026"

	profileVariable     = "AWS_PROFILE"
	configVariable      = "AWS_CONFIG_FILE"
	credentialsVariable = "AWS_SHARED_CREDENTIALS_FILE"

	defaultProfile = "default"
	fromDefault    = "default"
)

// A Source says where retry settings are read from: the environment and the files that the AWS SDKs and the AWS CLI
// share. The zero value is this process's environment and the files in the user's home directory. A Source is a plain
// value; any number of goroutines may use it at once.
//
// A setting comes from the environment, else from the credentials file, else from the config file, else it is the
// default. Two files are read each time Resolve or Load is called and at no other time; a file that does not exist,
// also one that is named here or by a variable, counts as empty.
type Source struct {
	// Profile is the profile's name; "": that of AWS_PROFILE, else "default". A profile other than "default" must
	// stand in at least one of the files.
	Profile string

	// ConfigFile is the path of the config file; "": that of AWS_CONFIG_FILE, else ~/.aws/config.
	ConfigFile string

	// CredentialsFile is the path of the credentials file; "": that of AWS_SHARED_CREDENTIALS_FILE, else
	// ~/.aws/credentials.
	CredentialsFile string

	// Getenv looks up an environment variable and returns "" for one that is not set; nil: os.Getenv. It must be
	// safe for as many goroutines as use the Source. The home directory is HOME, where Getenv knows it, and
	// os.UserHomeDir else. A path that Getenv returns may begin with ~/ for the home directory.
	Getenv func(string) string
}

// Settings are the retry settings that a [Source] gives, each with where it came from: "environment AWS_RETRY_MODE",
// "/home/me/.aws/config [profile p] retry_mode" or "default".
type Settings struct {
	Mode        Mode     // never ""
	MaxAttempts int      // attempts in all, the first included: at least 1; the mode's default where nothing sets it
	Revision    Revision // Revision2026 where AWS_NEW_RETRIES_2026 is true

	ModeFrom, MaxAttemptsFrom, RevisionFrom string
}

// Load returns a new Transport with the settings of src: Mode, MaxAttempts and Revision. MaxAttempts stays 0 where
// nothing sets it, so that the number follows a Mode that is set on the Transport later. Every other field is zero and
// the caller's to set. The errors are those of [Source.Resolve].
func Load(src Source) (*Transport, error) {
	s, err := src.Resolve()
	if err != nil {
		return nil, err
	}
	t := &Transport{Mode: s.Mode, Revision: s.Revision}
	if s.MaxAttemptsFrom != fromDefault {
		t.MaxAttempts = s.MaxAttempts
	}
	return t, nil
}

// Resolve reads the settings by the rules of the AWS SDKs and Tools Reference
// Guide, "Retry behavior".
//
// It is an error when a setting's value is not valid, unless a stronger source
// overrides it; when a profile other than "default" is asked for and stands in
// neither file; when the profile holds a line that cannot be read, its header
// included; and when a file exists but cannot be read, is not a regular
// file, has a NUL byte or is UTF-16, has settings but no section, or is larger
// than 16 MiB. The null device is read as an empty file. The error names the setting,
// its value, where it came from and what is allowed; errors.Is finds the error
// of the file system. It never holds the text of a line that could not be read,
// which may be a secret.
func (src Source) Resolve() (Settings, error) {
	env := src.environment()
	config, credentials, err := src.readProfile(env)
	if err != nil {
		return Settings{}, err
	}

	var s Settings
	if s.Mode, s.ModeFrom, err = firstSet(env.value(modeVariable), credentials.retryMode, config.retryMode).mode(); err != nil {
		return Settings{}, err
	}
	attempts := firstSet(env.value(maxAttemptsVariable), credentials.maxAttempts, config.maxAttempts)
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
	return configFile.path, credentialsFile.path
}

func (src Source) files(env environment) (config, credentials sharedFile) {
	config = sharedFile{path: src.ConfigFile, isConfig: true}
	if config.path == "" {
		config.path = env.path(configVariable, "config")
	}
	credentials = sharedFile{path: src.CredentialsFile}
	if credentials.path == "" {
		credentials.path = env.path(credentialsVariable, "credentials")
	}
	return config, credentials
}

func (src Source) environment() environment {
	if src.Getenv == nil {
		return environment{os.Getenv}
	}
	return environment{src.Getenv}
}

// readProfile returns what each of the two files says about the chosen profile.
func (src Source) readProfile(env environment) (config, credentials profileSettings, err error) {
	name, from := src.Profile, "Source.Profile"
	if name == "" {
		name, from = strings.TrimSpace(env.getenv(profileVariable)), "environment "+profileVariable
	}
	if name == "" {
		name = defaultProfile
	}
	configFile, credentialsFile := src.files(env)
	if config, err = configFile.profile(name); err != nil {
		return config, credentials, err
	}
	if credentials, err = credentialsFile.profile(name); err != nil {
		return config, credentials, err
	}
	if name != defaultProfile && !config.found && !credentials.found {
		return config, credentials, fmt.Errorf("awsretry: %s is %s; it must be a profile that stands in %s as [profile NAME] or in %s as [NAME], "+
			"named with letters, digits and %s", from, quoted(name), configFile, credentialsFile, profileNamePunctuation)
	}
	return config, credentials, nil
}

// environment is the variables of a Source.
type environment struct{ getenv func(string) string }

func (e environment) value(variable string) setting {
	return setting{text: strings.TrimSpace(e.getenv(variable)), from: "environment " + variable}
}

// path is the path that the variable holds, else that of the named file in ~/.aws, else "".
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

func (e environment) home() string {
	if home := e.getenv("HOME"); home != "" {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // no home directory: no files in it
	}
	return home
}

// A setting is a value that was found, not judged yet. The zero setting, and one without text, is not set.
type setting struct {
	text        string // without white space around it
	from        string
	continuedAt int // the line of the file on which the value goes on; 0: it does not
}

func firstSet(settings ...setting) setting {
	for _, s := range settings {
		if s.text != "" {
			return s
		}
	}
	return setting{}
}

func (s setting) mode() (Mode, string, error) {
	if s.text == "" {
		return Standard, fromDefault, nil
	}
	for _, m := range []Mode{Standard, Adaptive, Legacy} {
		if s.is(string(m)) {
			return m, s.from, nil
		}
	}
	return "", "", s.mustBe("standard, adaptive or legacy")
}

func (s setting) maxAttempts(m Mode) (int, string, error) {
	if s.text == "" {
		return defaultAttempts(m), fromDefault, nil
	}
	const allowed = "a whole number above 0 in decimal digits (1: never retry)"
	n, err := strconv.Atoi(s.text)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "", s.mustBe(fmt.Sprintf("%s and at most %d", allowed, math.MaxInt))
	}
	if err != nil || n < 1 || s.text[0] == '+' || s.continuedAt != 0 {
		return 0, "", s.mustBe(allowed)
	}
	return n, s.from, nil
}

func (s setting) revision() (Revision, string, error) {
	switch {
	case s.text == "":
		return Classic, fromDefault, nil
	case s.is("true"):
		return Revision2026, s.from, nil
	case s.is("false"):
		return Classic, s.from, nil
	}
	return Classic, "", s.mustBe("true or false")
}

func (s setting) is(word string) bool { return s.continuedAt == 0 && sameWord(s.text, word) }

func (s setting) mustBe(allowed string) error {
	continued := ""
	if s.continuedAt != 0 {
		continued = fmt.Sprintf(" and goes on in line %d, which is indented", s.continuedAt)
	}
	return fmt.Errorf("awsretry: %s is %s%s; it must be %s", s.from, quoted(s.text), continued, allowed)
}

// sameWord compares without regard to the case of ASCII letters. strings.EqualFold would also take the long s of
// "ſtandard" for an s.
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

// quoted is s for an error message, cut to a length that can be read.
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
