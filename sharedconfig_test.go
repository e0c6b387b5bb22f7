package awsretry

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"example.com/awsretry/internal/awsconfig"
)

func getenvOf(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// awsHome returns a home directory with the two files.
func awsHome(t testing.TB, config, credentials string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(home, ".aws", "config"), config)
	writeFile(t, filepath.Join(home, ".aws", "credentials"), credentials)
	return home
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// resolved returns the settings of a source and where they came from, if that is
// not the default, or the text of the error.
func resolved(t testing.TB, source Source) string {
	t.Helper()
	s, err := source.Resolve()
	if err != nil {
		if s != (Settings{}) {
			t.Errorf("got %+v with an error", s)
		}
		return err.Error()
	}
	all := fmt.Sprintf("%s (%s), %d (%s), %s (%s)",
		s.Mode, s.ModeFrom, s.MaxAttempts, s.MaxAttemptsFrom, s.Revision, s.RevisionFrom)
	return strings.ReplaceAll(all, " (default)", "")
}

// What the errors say is allowed.
const (
	allowedModes    = "it must be standard, adaptive or legacy"
	allowedAttempts = "it must be a whole number above 0 in decimal digits (1: never retry)"
	allowedRevision = "it must be true or false"
)

func TestResolveEnvironment(t *testing.T) {
	const (
		mode     = "AWS_RETRY_MODE"
		attempts = "AWS_MAX_ATTEMPTS"
		revision = "AWS_NEW_RETRIES_2026"
	)
	tooMany := fmt.Sprint(" and at most ", math.MaxInt)
	home := t.TempDir() // without files
	for _, tt := range []struct{ variable, value, want string }{
		{mode, " \t", "standard, 3, classic"},
		{mode, "standard", "standard (environment AWS_RETRY_MODE), 3, classic"},
		{mode, "adaptive", "adaptive (environment AWS_RETRY_MODE), 3, classic"},
		{mode, " LeGaCy\n", "legacy (environment AWS_RETRY_MODE), 4, classic"},
		{attempts, "1", "standard, 1 (environment AWS_MAX_ATTEMPTS), classic"},
		{attempts, " 0000000000000000000007 ", "standard, 7 (environment AWS_MAX_ATTEMPTS), classic"},
		{revision, "", "standard, 3, classic"},
		{revision, " TRUE ", "standard, 3, 2026 (environment AWS_NEW_RETRIES_2026)"},
		{revision, "False", "standard, 3, classic (environment AWS_NEW_RETRIES_2026)"},
		{mode, "fast", allowedModes},
		{mode, "standard,", allowedModes},
		{mode, "ſtandard", allowedModes},
		{attempts, "0", allowedAttempts},
		{attempts, "+3", allowedAttempts},
		{attempts, "0x3", allowedAttempts},
		{attempts, "99999999999999999999", allowedAttempts + tooMany},
		{revision, "1", allowedRevision},
	} {
		t.Run(tt.variable+"="+tt.value, func(t *testing.T) {
			if strings.HasPrefix(tt.want, "it must be") {
				tt.want = fmt.Sprintf("awsretry: environment %s is %q; %s", tt.variable, tt.value, tt.want)
			}
			got := resolved(t, Source{Getenv: getenvOf(map[string]string{"HOME": home, tt.variable: tt.value})})
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Each profile is a case of TestResolveOrder.
var (
	configFile = `
[default]
retry_mode = legacy
max_attempts = 2
[profile config]
RETRY_MODE = legacy
max_attempts = 2
[config]
max_attempts = 9
[profile both]
retry_mode = legacy
max_attempts = 2
[profile empty]
[profile emptied]
retry_mode = legacy
max_attempts = 2
[profile overridden]
retry_mode = fast
max_attempts = 0
[profile invalid]
max_attempts = 2
[profile line]
[stray]
[profile continued]
retry_mode = standard
  adaptive
[profile below]
retry_mode =
  adaptive
max_attempts =
	# seven
	7
[profile long]
retry_mode = x` + strings.Repeat("é", 100) + `
`
	credentialsFile = `
[both]
retry_mode = adaptive
[credentials]
max_attempts = 9
[emptied]
retry_mode =
max_attempts = # none
[overridden]
retry_mode = adaptive
max_attempts = -1
[invalid]
max_attempts = 0
[line]
aws_secret_access_key
[profile config]
max_attempts = 9
[profile stray]
`
)

// In the wants, CONFIG and CREDENTIALS are the paths of the two files.
func TestResolveOrder(t *testing.T) {
	home := awsHome(t, configFile, credentialsFile)
	paths := strings.NewReplacer(
		"CONFIG", filepath.Join(home, ".aws", "config"),
		"CREDENTIALS", filepath.Join(home, ".aws", "credentials"))
	for _, tt := range []struct {
		name, profile string
		env           map[string]string
		want          string
	}{
		{"default profile", "", nil,
			"legacy (CONFIG [default] retry_mode), 2 (CONFIG [default] max_attempts), classic"},
		{"config file", " config ", nil,
			"legacy (CONFIG [profile config] retry_mode), 2 (CONFIG [profile config] max_attempts), classic"},
		{"credentials file", "credentials", nil, "standard, 9 (CREDENTIALS [credentials] max_attempts), classic"},
		{"credentials before config", "both", nil,
			"adaptive (CREDENTIALS [both] retry_mode), 2 (CONFIG [profile both] max_attempts), classic"},
		{"environment before credentials", "both",
			map[string]string{"AWS_RETRY_MODE": "standard", "AWS_NEW_RETRIES_2026": "true"},
			"standard (environment AWS_RETRY_MODE), 2 (CONFIG [profile both] max_attempts), " +
				"2026 (environment AWS_NEW_RETRIES_2026)"},
		{"an empty value is not set", "emptied", map[string]string{"AWS_RETRY_MODE": " ", "AWS_MAX_ATTEMPTS": ""},
			"legacy (CONFIG [profile emptied] retry_mode), 2 (CONFIG [profile emptied] max_attempts), classic"},
		{"an overridden value may be invalid", "overridden", map[string]string{"AWS_MAX_ATTEMPTS": "5"},
			"adaptive (CREDENTIALS [overridden] retry_mode), 5 (environment AWS_MAX_ATTEMPTS), classic"},
		{"the strongest value must be valid", "invalid", nil,
			`awsretry: CREDENTIALS [invalid] max_attempts, line 13, is "0"; ` + allowedAttempts},
		{"profile without settings", "empty", nil, "standard, 3, classic"},
		{"profile in neither file", "stray", map[string]string{"AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "1"},
			`awsretry: environment AWS_PROFILE is "stray"; it must be a profile that is in ` +
				`CONFIG as [profile NAME], in quotes if NAME has a space, or in CREDENTIALS as [NAME]`},
		{"line that cannot be read, all overridden", "line",
			map[string]string{"AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "1"},
			"awsretry: CREDENTIALS line 15, in [line], cannot be read: it has no = or :; " +
				"allowed are NAME = VALUE, NAME: VALUE, [SECTION], a line that begins with # or ;, " +
				"and under a value the lines indented deeper than it that continue it"},
		{"continued on another line", "continued", nil, `awsretry: CONFIG [profile continued] retry_mode, line 25, is ` +
			`"standard" and goes on in line 26, which is indented; ` + allowedModes},
		{"only on another line", "below", nil, `awsretry: CONFIG [profile below] retry_mode, line 28, is ` +
			`"" and goes on in line 29, which is indented; ` + allowedModes},
		{"only on the line after a comment", "below", map[string]string{"AWS_RETRY_MODE": "legacy"},
			`awsretry: CONFIG [profile below] max_attempts, line 30, is "" and goes on in line 32, which is indented; ` +
				allowedAttempts},
		{"only on another line, overridden", "below",
			map[string]string{"AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "5"},
			"legacy (environment AWS_RETRY_MODE), 5 (environment AWS_MAX_ATTEMPTS), classic"},
		{"the other variable", "", map[string]string{"AWS_DEFAULT_PROFILE": " config "},
			"legacy (CONFIG [profile config] retry_mode), 2 (CONFIG [profile config] max_attempts), classic"},
		{"both variables", "credentials", map[string]string{"AWS_DEFAULT_PROFILE": "config"},
			"standard, 9 (CREDENTIALS [credentials] max_attempts), classic"},
		{"profile of the other variable in neither file", " ", map[string]string{"AWS_DEFAULT_PROFILE": "stray"},
			`awsretry: environment AWS_DEFAULT_PROFILE is "stray"; it must be a profile that is in ` +
				`CONFIG as [profile NAME], in quotes if NAME has a space, or in CREDENTIALS as [NAME]`},
		{"long, cut before a letter", "long", nil, `awsretry: CONFIG [profile long] retry_mode, line 34, is "x` +
			strings.Repeat("é", 39) + `"… (201 bytes); ` + allowedModes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"HOME": home, "AWS_PROFILE": tt.profile}
			maps.Copy(env, tt.env)
			if got, want := resolved(t, Source{Getenv: getenvOf(env)}), paths.Replace(tt.want); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Each file sets max_attempts to another number.
func TestResolvePaths(t *testing.T) {
	home := awsHome(t, "[default]\nmax_attempts = 11\n", "")
	other := awsHome(t, "[default]\nmax_attempts = 12\n", "[default]\nmax_attempts = 13\n")
	named, inHome := filepath.Join(t.TempDir(), "named"), filepath.Join(home, "config in home")
	writeFile(t, named,
		"[default]\nmax_attempts = 14\n[profile p]\nmax_attempts = 15\n[profile q]\nmax_attempts = 16\n")
	writeFile(t, inHome, "[default]\nmax_attempts = 17\n")
	none := filepath.Join(home, "none")
	const config, credentials = "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"
	for _, tt := range []struct {
		env    map[string]string
		source Source
		want   int
	}{
		{nil, Source{}, 11},
		{map[string]string{"HOME": other}, Source{}, 13},
		{map[string]string{config: named}, Source{}, 14},
		{map[string]string{config: "~/config in home"}, Source{}, 17},
		{map[string]string{config: none}, Source{}, 3},
		{map[string]string{config: "~root/none"}, Source{}, 3}, // another user's home
		{map[string]string{credentials: "~/config in home"}, Source{}, 17},
		{map[string]string{config: named}, Source{ConfigFile: inHome}, 17},
		{map[string]string{config: named}, Source{ConfigFile: none}, 3},
		{nil, Source{ConfigFile: "~/config in home"}, 3},
		{map[string]string{credentials: inHome}, Source{CredentialsFile: named}, 14},
		{map[string]string{config: named, "AWS_PROFILE": "p"}, Source{}, 15},
		{map[string]string{config: named, "AWS_PROFILE": "p"}, Source{Profile: "q"}, 16},
	} {
		env := map[string]string{"HOME": home}
		maps.Copy(env, tt.env)
		tt.source.Getenv = getenvOf(env)
		if s, err := tt.source.Resolve(); err != nil || s.MaxAttempts != tt.want {
			t.Errorf("%v, %+v: got %d from %s, %v; want %d", tt.env, tt.source, s.MaxAttempts, s.MaxAttemptsFrom, err, tt.want)
		}
	}
}

func TestResolveFileErrors(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	for _, source := range []Source{{ConfigFile: dir, CredentialsFile: none}, {ConfigFile: none, CredentialsFile: dir}} {
		source.Getenv = getenvOf(nil)
		s, err := source.Resolve()
		var pathError *fs.PathError
		if !errors.As(err, &pathError) || pathError.Path != dir || s != (Settings{}) ||
			!strings.HasPrefix(err.Error(), "awsretry: open ") {
			t.Errorf("got %+v, %v; want an error of the file system", s, err)
		}
	}
}

// Without a home directory, only files with their own path are read.
func TestUnknownHome(t *testing.T) {
	t.Setenv("HOME", "")
	if home, err := os.UserHomeDir(); err == nil {
		t.Skip("the home directory is", home)
	}
	source := Source{Profile: "p", Getenv: getenvOf(map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "~/c"})}
	if config, credentials := awsconfig.Source(source).Files(); config.Path != "" || credentials.Path != "~/c" {
		t.Errorf("got %q and %q", config, credentials)
	}
	want := `awsretry: Source.Profile is "p"; it must be a profile that is in ~/.aws/config ` +
		`as [profile NAME], in quotes if NAME has a space, or in ~/c as [NAME]`
	if got := resolved(t, source); !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestZeroSourceReadsThisProcess(t *testing.T) {
	home := awsHome(t, "[profile p]\nmax_attempts = 7\n", "[p]\nretry_mode = legacy\n")
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": "", "AWS_SHARED_CREDENTIALS_FILE": "", "AWS_RETRY_MODE": "", "AWS_MAX_ATTEMPTS": "",
		"HOME": home, "AWS_PROFILE": "p", "AWS_NEW_RETRIES_2026": "TRUE",
	} {
		t.Setenv(name, value)
	}
	aws := filepath.Join(home, ".aws") + string(filepath.Separator)
	want := fmt.Sprintf("legacy (%scredentials [p] retry_mode), 7 (%sconfig [profile p] max_attempts), "+
		"2026 (environment AWS_NEW_RETRIES_2026)", aws, aws)
	withoutHome := Source{Profile: "p", Getenv: getenvOf(map[string]string{"AWS_NEW_RETRIES_2026": "true"})}
	for _, source := range []Source{{}, withoutHome} {
		if runtime.GOOS == "windows" && source.Getenv != nil {
			break // os.UserHomeDir does not use HOME there
		}
		if got := resolved(t, source); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	home := awsHome(t, "[profile p]\nretry_mode = adaptive\nmax_attempts = 9\n", "")
	for _, tt := range []struct {
		env  map[string]string
		want string // or the beginning of the error
	}{
		{nil, "standard 0 default"},
		{map[string]string{"AWS_RETRY_MODE": "legacy"}, "legacy 0 default"},
		{map[string]string{"AWS_MAX_ATTEMPTS": "3"}, "standard 3 default"},
		{map[string]string{"AWS_NEW_RETRIES_2026": "false"}, "standard 0 classic"},
		{map[string]string{"AWS_NEW_RETRIES_2026": "true", "AWS_PROFILE": "p"}, "adaptive 9 2026"},
		{map[string]string{"AWS_MAX_ATTEMPTS": "0"}, `<nil> awsretry: environment AWS_MAX_ATTEMPTS is "0"`},
	} {
		env := map[string]string{"HOME": home}
		maps.Copy(env, tt.env)
		tr, err := Load(Source{Getenv: getenvOf(env)})
		got := fmt.Sprint(tr, " ", err)
		if err == nil {
			got = fmt.Sprint(tr.Mode, " ", tr.MaxAttempts, " ", tr.Revision)
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%v: got %s, want %s", tt.env, got, tt.want)
		}
	}
}
