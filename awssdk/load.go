package awssdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsconfig"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Load returns a Config with the Mode and MaxAttempts that
// config.LoadDefaultConfig reads for the profile and the files of src, and the
// Revision of AWS_NEW_RETRIES_2026, which the SDK does not read. MaxAttempts is
// 0 if nothing sets it, or sets it to 0, and Revision is zero if nothing sets it.
// The home directory is as in [awsretry.Source], but a path that Getenv returns
// is taken as it is.
//
// The SDK itself reads the files, so what is an error for LoadDefaultConfig is
// an error here. So are attempts below 0, with which the SDK retries without
// limit, and a value of AWS_NEW_RETRIES_2026 that is neither true nor false. The
// error names the value, where it came from and what is allowed; errors.As finds
// that of the SDK.
func Load(src awsretry.Source) (Config, error) {
	c, err := newLoader(src).load()
	if err != nil {
		return Config{}, fmt.Errorf("awssdk: %w", err)
	}
	return c, nil
}

const allowedAttempts = "a whole number, 0 or above (0: not set, 1: never retry)"

// The origins of a profile's name that must exist.
const (
	fromSource  = "Source.Profile"
	fromProfile = "environment AWS_PROFILE"
)

// A loader is a profile and where its settings are read.
type loader struct {
	env                 awsconfig.Environment
	profile             awsconfig.Value
	config, credentials awsconfig.File
}

func newLoader(src awsretry.Source) loader {
	l := loader{env: awsconfig.Source(src).Environment()}
	l.profile = awsconfig.FirstSet(awsconfig.Value{Text: src.Profile, From: fromSource},
		l.variable("AWS_PROFILE"), l.variable("AWS_DEFAULT_PROFILE"), awsconfig.Value{Text: config.DefaultSharedConfigProfile})
	src.ConfigFile = cmp.Or(src.ConfigFile, l.env("AWS_CONFIG_FILE"))
	src.CredentialsFile = cmp.Or(src.CredentialsFile, l.env("AWS_SHARED_CREDENTIALS_FILE"))
	l.config, l.credentials = awsconfig.Source(src).Files()
	return l
}

// variable returns the value of a variable. Unlike awsconfig, the SDK keeps the
// white space at its ends.
func (l loader) variable(name string) awsconfig.Value {
	return awsconfig.Value{Text: l.env(name), From: "environment " + name}
}

func (l loader) load() (Config, error) {
	mode, err := modeOf(l.variable("AWS_RETRY_MODE"))
	if err != nil {
		return Config{}, err
	}
	attempts, err := attemptsOf(l.variable("AWS_MAX_ATTEMPTS"), 10)
	if err != nil {
		return Config{}, err
	}
	shared, err := l.shared()
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Mode:        cmp.Or(mode, awsretry.Mode(shared.RetryMode), awsretry.Standard),
		MaxAttempts: cmp.Or(attempts, shared.RetryMaxAttempts),
	}
	if c.MaxAttempts < 0 {
		return Config{}, l.locate(errors.New("max_attempts below 0 does not limit the attempts of the AWS SDK"))
	}
	if revision := l.env.Value("AWS_NEW_RETRIES_2026"); revision.IsSet() {
		is2026, err := revision.Bool()
		if err != nil {
			return Config{}, err
		}
		c.Revision = awsretry.Classic
		if is2026 {
			c.Revision = awsretry.Revision2026
		}
	}
	return c, nil
}

// shared returns the profile, which may be missing if neither Source.Profile nor
// AWS_PROFILE names it.
func (l loader) shared() (config.SharedConfig, error) {
	shared, err := l.read()
	// Another profile, which this one names, is missing if the error wraps that type.
	if _, missing := err.(config.SharedConfigProfileNotExistError); missing { //nolint:errorlint // see above
		if l.profile.From != fromSource && l.profile.From != fromProfile {
			return config.SharedConfig{}, nil
		}
		return shared, l.profile.MustBe(fmt.Sprintf("a profile that is in %s as [profile NAME], without quotes, or in %s as [NAME]",
			l.config, l.credentials))
	}
	if err != nil {
		return shared, l.locate(err)
	}
	return shared, nil
}

// read has the SDK read the files. It panics at a value that is one quote.
func (l loader) read() (shared config.SharedConfig, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the AWS SDK panics: %v", r)
		}
	}()
	return config.LoadSharedConfigProfile(context.Background(), l.profile.Text,
		func(o *config.LoadSharedConfigOptions) {
			o.ConfigFiles, o.CredentialsFiles = []string{l.config.Path}, []string{l.credentials.Path}
		})
}

// locate adds the line to the error of a setting, or else the files.
func (l loader) locate(err error) error {
	inConfig, configErr := l.config.Profile(l.profile.Text)
	inCredentials, credentialsErr := l.credentials.Profile(l.profile.Text)
	if configErr == nil && credentialsErr == nil {
		_, mode := modeOf(unquoted(awsconfig.FirstSet(inCredentials.RetryMode, inConfig.RetryMode)))
		_, attempts := attemptsOf(unquoted(awsconfig.FirstSet(inCredentials.MaxAttempts, inConfig.MaxAttempts)), 0)
		if at := cmp.Or(mode, attempts); at != nil {
			return fmt.Errorf("%w (%w)", at, err)
		}
	}
	return fmt.Errorf("profile %q of %s and %s: %w", l.profile.Text, l.config, l.credentials, err)
}

// unquoted returns v without the quotes that the SDK removes.
func unquoted(v awsconfig.Value) awsconfig.Value {
	if n := len(v.Text); n > 1 && (v.Text[0] == '"' || v.Text[0] == '\'') && v.Text[0] == v.Text[n-1] {
		v.Text = v.Text[1 : n-1]
	}
	return v
}

func modeOf(v awsconfig.Value) (awsretry.Mode, error) {
	if !v.IsSet() {
		return "", nil
	}
	mode, err := aws.ParseRetryMode(v.Text)
	if err != nil {
		return "", v.MustBe("standard or adaptive")
	}
	return awsretry.Mode(mode), nil
}

// attemptsOf has the base of the SDK: 10 in the environment, and 0, any, in a file.
func attemptsOf(v awsconfig.Value, base int) (int, error) {
	if !v.IsSet() {
		return 0, nil
	}
	n, err := strconv.ParseInt(v.Text, base, 64)
	if err != nil || n < 0 {
		return 0, v.MustBe(allowedAttempts)
	}
	return int(n), nil
}
