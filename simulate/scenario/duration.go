package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// A Duration is a time.Duration that is written with its unit in a scenario
// file and in JSON, as in 90s, 1m30s or 250ms.
type Duration time.Duration

func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// UnmarshalText parses a duration with its unit. 0 needs none.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("the duration is %s; it must be %s", clipped(string(text)), allowedDuration)
	}
	*d = Duration(v)
	return nil
}

const allowedDuration = "a number with its unit, as in 90s, 1m30s or 250ms"

// UnmarshalYAML is UnmarshalText with an error that knows its position.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	var text string
	if err := yaml.NodeToValue(node, &text); err != nil || d.UnmarshalText([]byte(text)) != nil {
		return unfit(node, allowedDuration)
	}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads what MarshalText writes, or a number of seconds, as in
// results.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var seconds float64
	if json.Unmarshal(text, &seconds) == nil {
		*d = Duration(math.Round(seconds * float64(time.Second)))
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	return d.UnmarshalText([]byte(s))
}
