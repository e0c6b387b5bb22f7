package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"example.com/awsretry/internal/awsconfig"
)

// MissingFiles returns a warning for each variable that names a file that does not
// exist. Source.Resolve treats such a file as empty.
func MissingFiles(getenv func(string) string) (warnings []string) {
	config, credentials := awsconfig.Source{Getenv: getenv}.Files()
	for _, file := range []struct{ variable, path string }{
		{"AWS_CONFIG_FILE", config.Path},
		{"AWS_SHARED_CREDENTIALS_FILE", credentials.Path},
	} {
		if getenv(file.variable) == "" {
			continue
		}
		if _, err := os.Stat(file.path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			warnings = append(warnings, fmt.Sprintf(
				"environment %s is %q; there is no such file, so nothing is read from it", file.variable, file.path))
		}
	}
	return warnings
}
