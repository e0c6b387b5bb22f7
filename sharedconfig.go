package awsretry

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"example.com/awsretry/internal/awsconfig"
)

// The settings' names: AWS SDKs and Tools Reference Guide, "Retry behavior".
const (
	modeVariable        = "AWS_RETRY_MODE"
	maxAttemptsVariable = "AWS_MAX_ATTEMPTS"
	revisionVariable    = "AWS_NEW_RETRIES_2026"

	fromDefault = "default"
)

// A Source is where retry settings are read from: the environment, and the files
// that the AWS SDKs and the AWS CLI share, of which the credentials file takes
// precedence over the config file, and the environment over both. The zero value is
// the environment of this process and the files in the user's home directory. Only
// Resolve and Load read the files, in each call. A file that does not exist is read as
// an empty file, even if a field or a variable names it. A Source is a plain value and
// safe for concurrent use.
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
// MaxAttempts is 0 if nothing sets it, so that it follows a Mode that the caller
// sets later. Revision is zero too if nothing sets it, and so are all other fields.
// The errors are those of [Source.Resolve].
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

// Resolve reads the settings by the rules of the AWS SDKs and Tools Reference Guide,
// "Retry behavior". It returns an error if a setting is not valid and no stronger source
// overrides it, if neither file has a profile that is not "default", if a line of the
// profile cannot be read or hides a setting in the value above it, and if a file exists
// that is not a regular file of readable UTF-8 text with a section, up to 16 MiB. The
// null device is an empty file. The error names the setting, where it came from and what
// is allowed, and never has the text of a line that cannot be read, which may be a
// secret. errors.Is finds the error of the file system.
func (src Source) Resolve() (Settings, error) {
	s, err := src.resolve()
	if err != nil {
		return Settings{}, fmt.Errorf("awsretry: %w", err)
	}
	return s, nil
}

func (src Source) resolve() (s Settings, err error) {
	config, credentials, err := awsconfig.Source(src).Read()
	if err != nil {
		return s, err
	}
	env := awsconfig.Source(src).Environment()
	mode := awsconfig.FirstSet(env.Value(modeVariable), credentials.RetryMode, config.RetryMode)
	if s.Mode, s.ModeFrom, err = modeOf(mode); err != nil {
		return s, err
	}
	attempts := awsconfig.FirstSet(env.Value(maxAttemptsVariable), credentials.MaxAttempts, config.MaxAttempts)
	if s.MaxAttempts, s.MaxAttemptsFrom, err = maxAttemptsOf(attempts, s.Mode); err != nil {
		return s, err
	}
	s.Revision, s.RevisionFrom, err = revisionOf(env.Value(revisionVariable))
	return s, err
}

func modeOf(v awsconfig.Value) (Mode, string, error) {
	if !v.IsSet() {
		return Standard, fromDefault, nil
	}
	for _, m := range []Mode{Standard, Adaptive, Legacy} {
		if v.Is(string(m)) {
			return m, v.From, nil
		}
	}
	return "", "", v.MustBe("standard, adaptive or legacy")
}

func maxAttemptsOf(v awsconfig.Value, m Mode) (int, string, error) {
	if !v.IsSet() {
		return defaultAttempts(m), fromDefault, nil
	}
	const allowed = "a whole number above 0 in decimal digits (1: never retry)"
	n, err := strconv.Atoi(v.Text)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "", v.MustBe(fmt.Sprintf("%s and at most %d", allowed, math.MaxInt))
	}
	if err != nil || n < 1 || v.Text[0] == '+' || v.ContinuedAt != 0 {
		return 0, "", v.MustBe(allowed)
	}
	return n, v.From, nil
}

func revisionOf(v awsconfig.Value) (Revision, string, error) {
	if !v.IsSet() {
		return Classic, fromDefault, nil
	}
	if new, err := v.Bool(); err != nil || !new {
		return Classic, v.From, err
	}
	return Revision2026, v.From, nil
}
