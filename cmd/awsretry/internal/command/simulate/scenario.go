package simulate

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/simulate/chart"
	"example.com/awsretry/simulate/scenario"
)

// scenario returns the scenario of a name or a file, changed by the given flags.
func (c *command) scenario(name string, given func(flag string) bool) (scenario.Scenario, error) {
	read := scenario.Read
	if slices.Contains(scenario.Names(), name) {
		read = scenario.Ready
	}
	s, err := read(name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; it must be a file, or one of the ready scenarios %s",
			err, strings.Join(scenario.Names(), ", "))
	}
	if err != nil {
		return s, cli.Failed(err)
	}
	if given("settings") {
		s.Settings = nil
		for _, text := range c.settings {
			setting, err := scenario.ParseSetting(text)
			if err != nil {
				return s, fmt.Errorf("--settings: %w", err)
			}
			s.Settings = append(s.Settings, setting)
		}
	}
	if given("clients") {
		before := s.CallRate()
		s = s.WithClients(c.clients.Value)
		if now := s.CallRate(); math.Abs(now-before) > before/100 {
			c.Warn("awsretry simulate", fmt.Sprintf("--clients %d changes the load: the clients make up to %.4g calls a second"+
				" together, instead of %.4g, because they cannot think for less than no time or more than 1h",
				c.clients.Value, now, before), false)
		}
	}
	if given("duration") {
		s = s.WithDuration(scenario.Duration(c.duration))
	}
	if given("seed") {
		s.Seed = c.seed
	}
	for _, change := range c.changesOf {
		path, value, _ := strings.Cut(change, "=")
		changed, err := scenario.Set(s, path, value)
		if err != nil {
			return s, fmt.Errorf("--set %s: %w", change, err)
		}
		s = changed
	}
	if _, err := c.pictureFormat(); err != nil {
		return s, err
	}
	if err := c.checkReport(); err != nil {
		return s, err
	}
	err = s.Validate()
	if changes := c.changes(given); err != nil && changes != "" { // without them, the scenario is valid
		err = fmt.Errorf("with %s: %w", changes, err)
	}
	return s, err
}

// changes returns the given flags that change the scenario.
func (c *command) changes(given func(flag string) bool) string {
	var changes []string
	for _, flag := range []struct {
		name  string
		value any
	}{
		{"settings", c.settings.String()},
		{"clients", c.clients.Value},
		{"duration", time.Duration(c.duration)},
	} {
		if given(flag.name) {
			changes = append(changes, fmt.Sprintf("--%s %v", flag.name, flag.value))
		}
	}
	return strings.Join(changes, " ")
}

// pictureFormat returns the format of the picture, or "" for none.
func (c *command) pictureFormat() (string, error) {
	if c.picture.Value == "" {
		return "", nil
	}
	switch ending := strings.ToLower(filepath.Ext(c.picture.Value)); ending {
	case ".svg":
		return chart.SVG, nil
	case ".png":
		return chart.PNG, nil
	}
	return "", fmt.Errorf("--picture is %q; it must end with .svg or .png", c.picture.Value)
}
