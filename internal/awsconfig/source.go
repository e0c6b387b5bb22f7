package awsconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	profileVariable        = "AWS_PROFILE"
	defaultProfileVariable = "AWS_DEFAULT_PROFILE"
	configVariable         = "AWS_CONFIG_FILE"
	credentialsVariable    = "AWS_SHARED_CREDENTIALS_FILE"

	defaultProfile = "default"
)

// A Source is a profile in two files, with the fields of awsretry.Source.
type Source struct {
	Profile, ConfigFile, CredentialsFile string
	Getenv                               func(string) string
}

// Environment returns the environment of src.
func (src Source) Environment() Environment {
	if src.Getenv == nil {
		return os.Getenv
	}
	return src.Getenv
}

// Files returns the files of src. A path is "" if it would be in a home directory
// that is not known.
func (src Source) Files() (config, credentials File) {
	env := src.Environment()
	config = File{Path: src.ConfigFile, Config: true}
	if config.Path == "" {
		config.Path = env.path(configVariable, "config")
	}
	credentials = File{Path: src.CredentialsFile}
	if credentials.Path == "" {
		credentials.Path = env.path(credentialsVariable, "credentials")
	}
	return config, credentials
}

// Read returns the profile of each of the two files. It is an error if neither has
// it, unless it is the default one.
func (src Source) Read() (config, credentials Profile, err error) {
	env := src.Environment()
	named := FirstSet(Value{Text: src.Profile, From: "Source.Profile"},
		env.Value(profileVariable), env.Value(defaultProfileVariable), Value{Text: defaultProfile})
	configFile, credentialsFile := src.Files()
	if config, err = configFile.Profile(named.Text); err != nil {
		return config, credentials, err
	}
	if credentials, err = credentialsFile.Profile(named.Text); err != nil {
		return config, credentials, err
	}
	if named.Text != defaultProfile && !config.Found && !credentials.Found {
		err = named.MustBe(fmt.Sprintf(
			"a profile that is in %s as [profile NAME], in quotes if NAME has a space, or in %s as [NAME]",
			configFile, credentialsFile))
	}
	return config, credentials, err
}

// An Environment returns the value of an environment variable, or "".
type Environment func(variable string) string

// Value returns the value of a variable.
func (e Environment) Value(variable string) Value {
	return Value{Text: strings.TrimSpace(e(variable)), From: "environment " + variable}
}

// path returns the path in the variable, or that of the named file in ~/.aws if
// the variable is not set. It returns "" if the home directory is not known.
func (e Environment) path(variable, name string) string {
	path := e(variable)
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
func (e Environment) home() string {
	if home := e("HOME"); home != "" {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}
