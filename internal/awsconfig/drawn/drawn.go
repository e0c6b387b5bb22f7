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

// New draws a Home. Most of its lines are sound.
func New(r *rand.Rand) Home {
	h := Home{Config: file(r, configHeaders), Credentials: file(r, credentialsHeaders), Env: map[string]string{}}
	if worlds.Chance(r, .1) {
		h.Env["AWS_RETRY_MODE"] = value(r, modes)
	}
	if worlds.Chance(r, .1) {
		h.Env["AWS_MAX_ATTEMPTS"] = value(r, attempts)
	}
	if worlds.Chance(r, .7) {
		h.Env["AWS_PROFILE"] = worlds.Pick(r, "p", "p", "p", "p", "p", "my p", "my p", "default", "q", " p")
	}
	if worlds.Chance(r, .1) {
		h.Env["AWS_DEFAULT_PROFILE"] = worlds.Pick(r, "p", "none")
	}
	return h
}

// The first half of each list is what a user means to write.
var (
	configHeaders = []string{
		"[default]", "[profile p]", "[profile p]", "[profile p] # mine", "  [profile p]", "[profile\tp]", "[profile my p]",
		`[profile "my p"]`, "[profile q]", `[profile "p"]`, "[profile 'p']", "[ profile  p ]", "[profile default]", "[p]",
		"[sso-session p]", "[profile p", "profile p]", "[]",
	}
	credentialsHeaders = []string{
		"[default]", "[p]", "[p]", "[my p]", "[q]", "\t[p]", `["p"]`, "[profile p]", "[my  p]", "[ p ]", "[p",
	}
	modes    = []string{"standard", "adaptive", "adaptive", `"adaptive"`, "'adaptive'", "legacy", "Adaptive", "fast", "", "'"}
	attempts = []string{"1", "5", "7", "9", "0", `"7"`, "'7'", "+3", "010", "0x10", "1_0", "-1", "many", "", "9999999999999999999"}
	others   = []string{
		"region = x", "s3 =", "region = us-east-1", "output : json", "ca = # none", "name = M\xfcller", "a = \x00", "\xff = b",
		"x", "= x", "aws_access_key_id = x", "defaults_mode = fast", "role_arn = x", "name = '", "[", "\x00",
	}
)

func value(r *rand.Rand, values []string) string {
	if worlds.Chance(r, .9) {
		values = values[:len(values)/2]
	}
	return worlds.Pick(r, values...)
}

func file(r *rand.Rand, headers []string) string {
	var b strings.Builder
	if worlds.Chance(r, .02) {
		b.WriteString("\ufeff")
	}
	end := worlds.Pick(r, "\n", "\n", "\n", "\r\n", "\r")
	for range 1 + r.IntN(4) {
		b.WriteString(value(r, headers) + end)
		for range r.IntN(5) {
			b.WriteString(line(r) + end)
		}
	}
	return b.String()
}

// line draws a line other than a header.
func line(r *rand.Rand) string {
	indent := ""
	if worlds.Chance(r, .2) {
		indent = worlds.Pick(r, " ", "\t", "   ", "\u00a0")
	}
	assign := worlds.Pick(r, "=", " = ", " = ", ": ")
	switch r.IntN(8) {
	case 0, 1:
		return indent + value(r, others)
	case 2:
		return worlds.Pick(r, "", " ", "# mine", " ; retry_mode = adaptive")
	case 3, 4:
		return indent + worlds.Pick(r, "max_attempts", "max_attempts", "Max_Attempts") + assign + value(r, attempts) + comment(r)
	}
	return indent + worlds.Pick(r, "retry_mode", "retry_mode", "RETRY_MODE") + assign + value(r, modes) + comment(r)
}

func comment(r *rand.Rand) string {
	if worlds.Chance(r, .9) {
		return ""
	}
	return worlds.Pick(r, " # mine", "\t;mine", "# mine", " ")
}
