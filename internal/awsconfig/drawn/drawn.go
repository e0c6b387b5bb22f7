// Package drawn draws shared AWS files at random, for tests that compare their
// readers.
package drawn

import (
	"math/rand/v2"
	"strings"

	"example.com/awsretry/internal/worlds"
)

// A Home is the two files, and the environment that a reader sees.
type Home struct {
	Config, Credentials string
	Env                 map[string]string
}

// A drawer draws what few users mean to write in the share odd of its lines.
type drawer struct {
	*rand.Rand
	odd float64
}

// New draws a Home.
func New(r *rand.Rand) Home {
	d := drawer{r, worlds.Pick(r, 0, .02, .2)}
	h := Home{Config: d.file(configHeaders), Credentials: d.file(credentialsHeaders), Env: map[string]string{}}
	if worlds.Chance(r, .1) {
		h.Env["AWS_RETRY_MODE"] = d.pick(modes)
	}
	if worlds.Chance(r, .1) {
		h.Env["AWS_MAX_ATTEMPTS"] = d.pick(attempts)
	}
	if worlds.Chance(r, .7) {
		h.Env["AWS_PROFILE"] = d.pick(profiles)
	}
	if worlds.Chance(r, .1) {
		h.Env["AWS_DEFAULT_PROFILE"] = d.pick(profiles)
	}
	return h
}

// The first half of each list is what users mean to write.
var (
	profiles      = []string{"p", "p", "p", "my p", "default", "q", " p", "none"}
	configHeaders = []string{
		"[default]", "[profile p]", "[profile p]", "[profile q]", `[profile "my p"]`, "[sso-session p]", "[services p]",
		"  [profile p]", "[profile my p]", `[profile "p"]`, "[profile\tp]", "[ profile  p ]", "[profile default]", "[p]",
		"[profile p", "profile p]", "[]",
	}
	credentialsHeaders = []string{
		"[default]", "[p]", "[p]", "[my p]", "[q]", "\t[p]", `["p"]`, "[profile p]", "[my  p]", "[ p ]", "[p",
	}
	modes    = []string{"standard", "adaptive", "adaptive", "legacy", `"adaptive"`, "'standard'", "Adaptive", "fast", "", "'"}
	attempts = []string{"1", "5", "7", "9", "12", "3", `"7"`, "'7'", "0", "+3", "010", "0x10", "1_0", "-1", "many", "", "9999999999999999999"}
	others   = []string{
		"region = x", "s3 =", "output : json", "ca = # none", "role_arn = x", "cli_pager=", "", "# mine", " ; retry_mode = adaptive",
		"name = M\xfcller", "a = \x00", "\xff = b", "x", "= x", "aws_access_key_id = x", "defaults_mode = fast", "name = '", "[", "\x00",
	}
)

func (d drawer) pick(values []string) string {
	if d.Float64() >= d.odd {
		values = values[:len(values)/2]
	}
	return worlds.Pick(d.Rand, values...)
}

func (d drawer) file(headers []string) string {
	var lines []string
	if worlds.Chance(d.Rand, d.odd/4) {
		lines = append(lines, "\ufeff")
	}
	for range 2 + d.IntN(4) {
		lines = d.add(lines, d.pick(headers))
		first := len(lines)
		for range d.IntN(5) {
			if line := d.line(); len(lines) > first && worlds.Chance(d.Rand, .1) {
				lines = append(lines, worlds.Pick(d.Rand, " ", "\t", "   ", "\u00a0")+line)
			} else {
				lines = append(lines[:first], d.add(lines[first:], line)...)
			}
		}
	}
	return strings.Join(lines, worlds.Pick(d.Rand, "\n", "\n", "\n", "\r\n", "\r"))
}

// add appends a line unless one begins with the same word, which is odd.
func (d drawer) add(lines []string, line string) []string {
	word, _, _ := strings.Cut(line, " =")
	for _, other := range lines {
		if strings.HasPrefix(strings.ToLower(other), strings.ToLower(word)) && !worlds.Chance(d.Rand, d.odd) {
			return lines
		}
	}
	return append(lines, line)
}

// line draws a line other than a header.
func (d drawer) line() string {
	comment := ""
	if worlds.Chance(d.Rand, d.odd) {
		comment = worlds.Pick(d.Rand, " # mine", "\t;mine", "# mine", " ")
	}
	switch d.IntN(3) {
	case 0:
		return worlds.Pick(d.Rand, "max_attempts =", "max_attempts = ", "Max_Attempts =\t") + d.pick(attempts) + comment
	case 1:
		return worlds.Pick(d.Rand, "retry_mode =", "retry_mode = ", "RETRY_MODE = ") + d.pick(modes) + comment
	}
	return d.pick(others)
}
