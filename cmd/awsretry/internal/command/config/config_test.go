package config

import (
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

const configFile = `[default]
retry_mode = legacy

[profile busy]
retry_mode   = adaptive
max_attempts = 8
`

func TestConfig(t *testing.T) {
	vars := map[string]string{
		"CONFIG":    clitest.File(t, "config", configFile),
		"NOSECTION": clitest.File(t, "config", "retry_mode = legacy\n"),
	}
	clitest.Shell{}.Transcript(t, "config.txt", vars, New)
}
