package awsretry

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"example.com/awsretry/internal/awsconfig/drawn"
	"example.com/awsretry/internal/worlds"
)

// A python is what botocore makes of a file: the sections of configparser, each
// with its options, in the order of the file.
type python struct {
	names   []string
	options map[string]map[string]string
}

// parsePython is configparser.RawConfigParser, and the nested blocks of botocore.
func parsePython(text string) (python, bool) {
	p := python{options: make(map[string]map[string]string)}
	var section map[string]string
	option, indent := "", 0
	for _, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n") {
		stripped := strings.TrimSpace(line)
		at := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsSpace(r) })
		switch {
		case strings.HasPrefix(stripped, "#"), strings.HasPrefix(stripped, ";"):
			continue
		case stripped == "" && option == "":
			continue
		case stripped == "", option != "" && utf8.RuneCountInString(line[:at]) > indent:
			section[option] += "\n" + stripped
			continue
		}
		indent, option = utf8.RuneCountInString(line[:at]), ""
		if end := strings.LastIndexByte(stripped, ']'); stripped[0] == '[' && end > 1 {
			name := stripped[1:end]
			if p.options[name] != nil {
				return p, false
			}
			section = make(map[string]string)
			p.names, p.options[name] = append(p.names, name), section
			continue
		}
		equals := strings.IndexAny(stripped, "=:")
		if equals <= 0 || section == nil {
			return p, false
		}
		option = strings.ToLower(strings.TrimSpace(stripped[:equals]))
		if _, twice := section[option]; twice {
			return p, false
		}
		section[option] = strings.TrimSpace(stripped[equals+1:])
	}
	for _, section := range p.options {
		for name, value := range section {
			section[name] = strings.TrimRight(value, "\n")
			for _, line := range strings.Split(section[name], "\n")[1:] {
				if section[name][0] == '\n' && line != "" && !strings.Contains(line, "=") {
					return p, false
				}
			}
		}
	}
	return p, utf8.ValidString(text)
}

// botocore returns the settings that botocore reads, "" for one that is not set,
// and whether it reads them without an error. A profile with two sections in the
// config file, and a name with white space at an end, are left out.
func botocore(h drawn.Home) (mode, attempts string, ok bool) {
	config, ok := parsePython(h.Config)
	credentials, sound := parsePython(h.Credentials)
	if !ok || !sound {
		return "", "", false
	}
	profiles := make(map[string]map[string]string)
	for _, name := range config.names {
		profile := name
		if rest, word := strings.CutPrefix(name, "profile"); word {
			profile = strings.TrimSpace(rest)
			if quoted := strings.Trim(profile, `"'`); quoted != profile {
				profile = quoted
			} else if profile == "" || strings.ContainsFunc(profile, unicode.IsSpace) {
				continue
			}
		} else if name != "default" {
			if strings.TrimSpace(name) != name {
				return "", "", false
			}
			continue
		}
		if profiles[profile] != nil {
			return "", "", false
		}
		profiles[profile] = config.options[name]
	}
	for _, name := range credentials.names {
		if strings.TrimSpace(name) != name {
			return "", "", false
		}
		if profiles[name] == nil {
			profiles[name] = make(map[string]string)
		}
		for option, value := range credentials.options[name] {
			profiles[name][option] = value
		}
	}
	named := cmp.Or(h.Env["AWS_PROFILE"], h.Env["AWS_DEFAULT_PROFILE"])
	profile := profiles[cmp.Or(named, "default")]
	if named != "" && profile == nil {
		return "", "", false
	}
	setting := func(variable, option string) (string, bool) {
		if value, set := h.Env[variable]; set {
			return value, true
		}
		value, set := profile[option]
		return value, set
	}
	mode, set := setting("AWS_RETRY_MODE", "retry_mode")
	if set && mode != "standard" && mode != "adaptive" && mode != "legacy" {
		return "", "", false
	}
	if attempts, set = setting("AWS_MAX_ATTEMPTS", "max_attempts"); set {
		n, err := strconv.Atoi(strings.ReplaceAll(attempts, "_", ""))
		if err != nil || n < 1 {
			return "", "", false
		}
		attempts = strconv.Itoa(n)
	}
	return mode, attempts, true
}

// Load reads what botocore reads, except that its default mode is Standard. An
// error where botocore has none is about a line that botocore takes as part of the
// value above, or about a number such as +3.
func TestLawOfLoad(t *testing.T) {
	var equal, stricter, failed int
	worlds.Each(t, 100, func(t *testing.T, r *rand.Rand) {
		home := t.TempDir()
		for range 100 {
			h := drawn.New(r)
			source := Source{
				ConfigFile: filepath.Join(home, "config"), CredentialsFile: filepath.Join(home, "credentials"),
				Getenv: getenvOf(h.Env),
			}
			writeFile(t, source.ConfigFile, h.Config)
			writeFile(t, source.CredentialsFile, h.Credentials)
			mode, attempts, ok := botocore(h)
			n, _ := strconv.Atoi(attempts)
			loaded, err := Load(source)
			switch {
			case !ok:
				failed++
			case err == nil && loaded.Mode == cmp.Or(Mode(mode), Standard) && loaded.MaxAttempts == n:
				equal++
			case err != nil && (strings.Contains(err.Error(), "is indented") || strings.Contains(err.Error(), "in decimal digits")):
				stricter++
			default:
				t.Fatalf("%+q: got %+v, %v; want %q, %q", h, loaded, err, mode, attempts)
			}
		}
	})
	if t.Logf("%d equal, %d stricter, %d errors of botocore", equal, stricter, failed); min(equal, failed) < 100 || stricter == 0 {
		t.Error("too few")
	}
}
