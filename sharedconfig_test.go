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
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func getenvOf(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
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

// What the errors say is allowed.
const (
	allowedModes    = "standard, adaptive or legacy"
	allowedAttempts = "a whole number above 0 in decimal digits (1: never retry)"
)

func TestResolveEnvironment(t *testing.T) {
	const (
		mode     = "AWS_RETRY_MODE"
		attempts = "AWS_MAX_ATTEMPTS"
		revision = "AWS_NEW_RETRIES_2026"
	)
	defaults := Settings{Standard, 3, Classic, "default", "default", "default"}
	home := t.TempDir() // without files
	resolve := func(variable, value string) (Settings, error) {
		return Source{Getenv: getenvOf(map[string]string{"HOME": home, variable: value})}.Resolve()
	}

	for _, test := range []struct {
		variable, value string
		want            Settings
	}{
		{mode, "", defaults},
		{mode, " \t", defaults},
		{mode, "standard", Settings{Standard, 3, Classic, "environment " + mode, "default", "default"}},
		{mode, "adaptive", Settings{Adaptive, 3, Classic, "environment " + mode, "default", "default"}},
		{mode, "legacy", Settings{Legacy, 4, Classic, "environment " + mode, "default", "default"}},
		{mode, " LeGaCy\n", Settings{Legacy, 4, Classic, "environment " + mode, "default", "default"}},

		{attempts, "", defaults},
		{attempts, " ", defaults},
		{attempts, "1", Settings{Standard, 1, Classic, "default", "environment " + attempts, "default"}},
		{attempts, " 3 ", Settings{Standard, 3, Classic, "default", "environment " + attempts, "default"}},
		{attempts, "007", Settings{Standard, 7, Classic, "default", "environment " + attempts, "default"}},
		{attempts, "0000000000000000000007",
			Settings{Standard, 7, Classic, "default", "environment " + attempts, "default"}},
		{attempts, "2147483647",
			Settings{Standard, 2147483647, Classic, "default", "environment " + attempts, "default"}},

		{revision, "", defaults},
		{revision, "true", Settings{Standard, 3, Revision2026, "default", "default", "environment " + revision}},
		{revision, " TRUE ", Settings{Standard, 3, Revision2026, "default", "default", "environment " + revision}},
		{revision, "False", Settings{Standard, 3, Classic, "default", "default", "environment " + revision}},
	} {
		t.Run(test.variable+"="+test.value, func(t *testing.T) {
			got, err := resolve(test.variable, test.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}

	for _, invalid := range []struct {
		variable, allowed string
		values            []string
	}{
		{mode, allowedModes, []string{"fast", "standard,", "adaptİve", "ſtandard", "standard\nx"}},
		{attempts, allowedAttempts, []string{"0", "00", "-1", "+3", "3.0", "3e0", "0x3", "1_0", "٣", "three"}},
		{attempts, allowedAttempts + " and at most " + strconv.Itoa(math.MaxInt), []string{"99999999999999999999"}},
		{revision, "true or false", []string{"1", "falſe"}},
	} {
		for _, value := range invalid.values {
			t.Run(invalid.variable+"="+value, func(t *testing.T) {
				got, err := resolve(invalid.variable, value)
				want := fmt.Sprintf("awsretry: environment %s is %q; it must be %s",
					invalid.variable, value, invalid.allowed)
				if errorText(err) != want {
					t.Errorf("got error %q, want %q", errorText(err), want)
				}
				if got != (Settings{}) {
					t.Errorf("got %+v with an error", got)
				}
			})
		}
	}
}

// A value that a file continues on further lines is not valid, even if its
// first line is. The error shows a long value in part.
func TestSettingOfFileIsInvalid(t *testing.T) {
	parseMode := func(s setting) error { _, _, err := s.mode(); return err }
	parseAttempts := func(s setting) error { _, _, err := s.maxAttempts(Standard); return err }
	for _, test := range []struct {
		name    string
		parse   func(setting) error
		setting setting
		want    string
	}{
		{"continued mode", parseMode, setting{"standard", "config [p] retry_mode", 3},
			`awsretry: config [p] retry_mode is "standard" and goes on in line 3, which is indented; ` +
				`it must be ` + allowedModes},
		{"continued attempts", parseAttempts, setting{"1", "config [p] max_attempts", 5},
			`awsretry: config [p] max_attempts is "1" and goes on in line 5, which is indented; it must be ` +
				allowedAttempts},
		{"nested block", parseAttempts, setting{"retries = 7", "config [p] max_attempts", 4},
			`awsretry: config [p] max_attempts is "retries = 7" and goes on in line 4, which is indented; ` +
				`it must be ` + allowedAttempts},
		{"quotes", parseMode, setting{`"adaptive"`, "config [p] retry_mode", 0},
			`awsretry: config [p] retry_mode is "\"adaptive\""; it must be ` + allowedModes},
		{"not UTF-8", parseMode, setting{"M\xfcller", "f", 0},
			`awsretry: f is "M\xfcller"; it must be ` + allowedModes},
		{"long", parseMode, setting{strings.Repeat("é", 100), "f", 0},
			`awsretry: f is "` + strings.Repeat("é", 40) + `"… (200 bytes); it must be ` + allowedModes},
		{"long, cut before a letter", parseMode, setting{"x" + strings.Repeat("é", 100), "f", 0},
			`awsretry: f is "x` + strings.Repeat("é", 39) + `"… (201 bytes); it must be ` + allowedModes},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := errorText(test.parse(test.setting)); got != test.want {
				t.Errorf("got error %q\nwant %q", got, test.want)
			}
		})
	}
}

func FuzzSetting(f *testing.F) {
	f.Add("adaptive", 0)
	f.Add("7", 0)
	f.Add("7", 3)
	f.Add(strings.Repeat("9", 100), 0)
	f.Add("M\xfcller", 0)
	f.Fuzz(func(t *testing.T, text string, continuedAt int) {
		s := setting{text, "file", continuedAt}
		mode, modeFrom, modeErr := s.mode()
		if modeErr == nil && (modeFrom == "" || mode != Standard && mode != Adaptive && mode != Legacy) {
			t.Errorf("got mode %q from %q", mode, modeFrom)
		}
		attempts, attemptsFrom, attemptsErr := s.maxAttempts(Standard)
		if attemptsErr == nil && (attemptsFrom == "" || attempts < 1) {
			t.Errorf("got %d attempts from %q", attempts, attemptsFrom)
		}
		_, revisionFrom, revisionErr := s.revision()
		if revisionErr == nil && revisionFrom == "" {
			t.Error("got a revision from nowhere")
		}
		for _, err := range []error{modeErr, attemptsErr, revisionErr} {
			if err != nil && (!strings.HasPrefix(err.Error(), "awsretry: file is ") || len(err.Error()) > 1000) {
				t.Errorf("got error %q", err)
			}
			if text != "" && continuedAt != 0 && err == nil {
				t.Error("got no error for a value that is continued")
			}
		}
	})
}

// Each profile is a case of TestResolveOrder.
const (
	orderConfig = `
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
`
	orderCredentials = `
[both]
retry_mode = adaptive
["credentials"]
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
	home := awsHome(t, orderConfig, orderCredentials)
	files := strings.NewReplacer(
		"CONFIG", filepath.Join(home, ".aws", "config"),
		"CREDENTIALS", filepath.Join(home, ".aws", "credentials"))
	tests := []struct {
		name, profile string
		env           map[string]string
		want          Settings
		wantError     string
	}{
		{
			name: "default profile",
			want: Settings{Legacy, 2, Classic, "CONFIG [default] retry_mode",
				"CONFIG [default] max_attempts", "default"},
		},
		{
			name:    "default profile by its name",
			profile: "default",
			want: Settings{Legacy, 2, Classic, "CONFIG [default] retry_mode",
				"CONFIG [default] max_attempts", "default"},
		},
		{
			name:    "config file",
			profile: " config ",
			want: Settings{Legacy, 2, Classic,
				"CONFIG [profile config] retry_mode", "CONFIG [profile config] max_attempts", "default"},
		},
		{
			name:    "credentials file",
			profile: "credentials",
			want:    Settings{Standard, 9, Classic, "default", "CREDENTIALS [credentials] max_attempts", "default"},
		},
		{
			name:    "credentials before config",
			profile: "both",
			want: Settings{Adaptive, 2, Classic,
				"CREDENTIALS [both] retry_mode", "CONFIG [profile both] max_attempts", "default"},
		},
		{
			name:    "environment before credentials",
			profile: "both",
			env:     map[string]string{"AWS_RETRY_MODE": "standard", "AWS_NEW_RETRIES_2026": "true"},
			want: Settings{Standard, 2, Revision2026,
				"environment AWS_RETRY_MODE", "CONFIG [profile both] max_attempts", "environment AWS_NEW_RETRIES_2026"},
		},
		{
			name:    "default attempts follow the mode",
			profile: "credentials",
			env:     map[string]string{"AWS_RETRY_MODE": "legacy"},
			want: Settings{Legacy, 9, Classic,
				"environment AWS_RETRY_MODE", "CREDENTIALS [credentials] max_attempts", "default"},
		},
		{
			name:    "an empty value is not set",
			profile: "emptied",
			env:     map[string]string{"AWS_RETRY_MODE": " ", "AWS_MAX_ATTEMPTS": ""},
			want: Settings{Legacy, 2, Classic,
				"CONFIG [profile emptied] retry_mode", "CONFIG [profile emptied] max_attempts", "default"},
		},
		{
			name:    "an overridden value may be invalid",
			profile: "overridden",
			env:     map[string]string{"AWS_MAX_ATTEMPTS": "5"},
			want: Settings{Adaptive, 5, Classic,
				"CREDENTIALS [overridden] retry_mode", "environment AWS_MAX_ATTEMPTS", "default"},
		},
		{
			name:      "the strongest value must be valid",
			profile:   "invalid",
			wantError: `awsretry: CREDENTIALS [invalid] max_attempts is "0"; it must be ` + allowedAttempts,
		},
		{
			name:    "profile without settings",
			profile: "empty",
			want:    Settings{Standard, 3, Classic, "default", "default", "default"},
		},
		{
			name:    "default attempts of a mode that is not the default",
			profile: "empty",
			env:     map[string]string{"AWS_RETRY_MODE": "legacy"},
			want:    Settings{Legacy, 4, Classic, "environment AWS_RETRY_MODE", "default", "default"},
		},
		{
			name:    "profile in neither file",
			profile: "stray",
			env:     map[string]string{"AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "1"},
			wantError: `awsretry: environment AWS_PROFILE is "stray"; it must be a profile that stands in ` +
				`CONFIG as [profile NAME] or in CREDENTIALS as [NAME], named with letters, digits and -/.%@_:+`,
		},
		{
			name:    "line that cannot be read, all settings overridden",
			profile: "line",
			env:     map[string]string{"AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "1"},
			wantError: "awsretry: CREDENTIALS line 15, in [line], cannot be read: it has no = or :; " +
				"allowed are NAME = VALUE, NAME: VALUE, [SECTION], a line that begins with # or ;, " +
				"and under a value the lines indented deeper than it that continue it",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"HOME": home, "AWS_PROFILE": test.profile}
			maps.Copy(env, test.env)
			got, err := Source{Getenv: getenvOf(env)}.Resolve()
			if got, want := errorText(err), files.Replace(test.wantError); got != want {
				t.Errorf("got error %q\nwant %q", got, want)
			}
			want := test.want
			want.ModeFrom, want.MaxAttemptsFrom = files.Replace(want.ModeFrom), files.Replace(want.MaxAttemptsFrom)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("-want +got", diff)
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
	tests := []struct {
		name   string
		env    map[string]string
		source Source
		want   int
	}{
		{"home", map[string]string{"HOME": home}, Source{}, 11},
		{"credentials in home", map[string]string{"HOME": other}, Source{}, 13},
		{"AWS_CONFIG_FILE", map[string]string{"HOME": home, "AWS_CONFIG_FILE": named}, Source{}, 14},
		{"AWS_CONFIG_FILE below home",
			map[string]string{"HOME": home, "AWS_CONFIG_FILE": "~/config in home"}, Source{}, 17},
		{"AWS_CONFIG_FILE that is missing", map[string]string{"HOME": home, "AWS_CONFIG_FILE": none}, Source{}, 3},
		{"AWS_CONFIG_FILE in another user's home",
			map[string]string{"HOME": home, "AWS_CONFIG_FILE": "~root/none"}, Source{}, 3},
		{"AWS_SHARED_CREDENTIALS_FILE",
			map[string]string{"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(other, ".aws", "credentials")},
			Source{}, 13},
		{"AWS_SHARED_CREDENTIALS_FILE below home",
			map[string]string{"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": "~/config in home"}, Source{}, 17},
		{"one file for both",
			map[string]string{"HOME": home, "AWS_CONFIG_FILE": named, "AWS_SHARED_CREDENTIALS_FILE": named},
			Source{}, 14},
		{"ConfigFile before AWS_CONFIG_FILE",
			map[string]string{"HOME": home, "AWS_CONFIG_FILE": named}, Source{ConfigFile: inHome}, 17},
		{"ConfigFile that is missing",
			map[string]string{"HOME": home, "AWS_CONFIG_FILE": named}, Source{ConfigFile: none}, 3},
		{"ConfigFile with a ~", map[string]string{"HOME": home}, Source{ConfigFile: "~/config in home"}, 3},
		{"CredentialsFile before AWS_SHARED_CREDENTIALS_FILE",
			map[string]string{"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": inHome}, Source{CredentialsFile: named}, 14},
		{"AWS_PROFILE", map[string]string{"AWS_CONFIG_FILE": named, "AWS_PROFILE": "p"}, Source{}, 15},
		{"Profile before AWS_PROFILE",
			map[string]string{"AWS_CONFIG_FILE": named, "AWS_PROFILE": "p"}, Source{Profile: "q"}, 16},
		{"home that is not a directory", map[string]string{"HOME": os.DevNull}, Source{}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && test.env["HOME"] == os.DevNull {
				t.Skip("NUL is not a file there")
			}
			test.source.Getenv = getenvOf(test.env)
			s, err := test.source.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			if s.MaxAttempts != test.want {
				t.Errorf("got %d from %s, want %d", s.MaxAttempts, s.MaxAttemptsFrom, test.want)
			}
		})
	}
}

func TestResolveFileErrors(t *testing.T) {
	dir := t.TempDir()
	noFile := filepath.Join(dir, "none")
	for name, source := range map[string]Source{
		"config file":      {ConfigFile: dir, CredentialsFile: noFile},
		"credentials file": {ConfigFile: noFile, CredentialsFile: dir},
	} {
		t.Run(name, func(t *testing.T) {
			source.Getenv = getenvOf(nil)
			s, err := source.Resolve()
			var pathError *fs.PathError
			if !errors.As(err, &pathError) || pathError.Path != dir ||
				!strings.HasPrefix(err.Error(), "awsretry: open ") {
				t.Errorf("got error %v, want one of the file system", err)
			}
			if s != (Settings{}) {
				t.Errorf("got %+v with an error", s)
			}
		})
	}
}

func TestResolveProfileOfSource(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	_, err := Source{Profile: "p", ConfigFile: none, CredentialsFile: none, Getenv: getenvOf(nil)}.Resolve()
	want := fmt.Sprintf(`awsretry: Source.Profile is "p"; it must be a profile that stands in %s as [profile NAME] `+
		`or in %s as [NAME], named with letters, digits and -/.%%@_:+`, none, none)
	if errorText(err) != want {
		t.Errorf("got error %q\nwant %q", errorText(err), want)
	}
}

func TestSourceFiles(t *testing.T) {
	home := t.TempDir()
	inHome := func(name string) string { return filepath.Join(home, name) }
	for _, test := range []struct {
		name                string
		env                 map[string]string
		source              Source
		config, credentials string
	}{
		{"home", nil, Source{}, inHome(".aws/config"), inHome(".aws/credentials")},
		{"variables", map[string]string{"AWS_CONFIG_FILE": "~/c", "AWS_SHARED_CREDENTIALS_FILE": "/x/y"},
			Source{}, inHome("c"), "/x/y"},
		{"fields", map[string]string{"AWS_CONFIG_FILE": "c", "AWS_SHARED_CREDENTIALS_FILE": "d"},
			Source{ConfigFile: "e", CredentialsFile: "f"}, "e", "f"},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"HOME": home}
			maps.Copy(env, test.env)
			test.source.Getenv = getenvOf(env)
			if config, credentials := test.source.Files(); config != test.config || credentials != test.credentials {
				t.Errorf("got %s and %s, want %s and %s", config, credentials, test.config, test.credentials)
			}
		})
	}
}

// Without a home directory, only files with a path of their own are read.
func TestUnknownHome(t *testing.T) {
	t.Setenv("HOME", "")
	if home, err := os.UserHomeDir(); err == nil {
		t.Skip("the home directory is", home)
	}
	source := Source{Profile: "p", Getenv: getenvOf(map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "~/c"})}
	if config, credentials := source.Files(); config != "" || credentials != "~/c" {
		t.Errorf("got %q and %q", config, credentials)
	}
	_, err := source.Resolve()
	want := `awsretry: Source.Profile is "p"; it must be a profile that stands in ~/.aws/config ` +
		`as [profile NAME] or in ~/c as [NAME], `
	if !strings.HasPrefix(errorText(err), want) {
		t.Errorf("got error %q\nwant %q", errorText(err), want)
	}
}

func TestResolveZeroSourceReadsThisProcess(t *testing.T) {
	home := awsHome(t, "[profile p]\nmax_attempts = 7\n", "[p]\nretry_mode = legacy\n")
	for _, name := range []string{
		"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("AWS_PROFILE", "p")
	t.Setenv("AWS_NEW_RETRIES_2026", "TRUE")
	aws := filepath.Join(home, ".aws") + string(filepath.Separator)
	want := Settings{Legacy, 7, Revision2026,
		aws + "credentials [p] retry_mode", aws + "config [profile p] max_attempts", "environment AWS_NEW_RETRIES_2026"}
	for name, source := range map[string]Source{
		"zero":                {},
		"Getenv without HOME": {Profile: "p", Getenv: getenvOf(map[string]string{"AWS_NEW_RETRIES_2026": "true"})},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && source.Getenv != nil {
				t.Skip("os.UserHomeDir does not use HOME there")
			}
			got, err := source.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	type fields struct {
		Mode        Mode
		MaxAttempts int
		Revision    Revision
	}
	home := awsHome(t, "[profile p]\nretry_mode = adaptive\nmax_attempts = 9\n", "")
	tests := []struct {
		name string
		env  map[string]string
		want fields
	}{
		{"nothing set", nil, fields{Mode: Standard}},
		{"attempts not set", map[string]string{"AWS_RETRY_MODE": "legacy"}, fields{Mode: Legacy}},
		{"attempts set to the default", map[string]string{"AWS_MAX_ATTEMPTS": "3"},
			fields{Mode: Standard, MaxAttempts: 3}},
		{"all set", map[string]string{"AWS_NEW_RETRIES_2026": "true", "AWS_PROFILE": "p"},
			fields{Mode: Adaptive, MaxAttempts: 9, Revision: Revision2026}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"HOME": home}
			maps.Copy(env, test.env)
			got, err := Load(Source{Getenv: getenvOf(env)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, fields{got.Mode, got.MaxAttempts, got.Revision}); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}
	t.Run("invalid", func(t *testing.T) {
		got, err := Load(Source{Getenv: getenvOf(map[string]string{"HOME": home, "AWS_MAX_ATTEMPTS": "0"})})
		if got != nil || !strings.HasPrefix(errorText(err), `awsretry: environment AWS_MAX_ATTEMPTS is "0"`) {
			t.Errorf("got %v and error %v", got, err)
		}
	})
}

func TestResolveConcurrently(t *testing.T) {
	home := awsHome(t, "[default]\nretry_mode = legacy\n", "[default]\nmax_attempts = 7\n")
	source := Source{Getenv: getenvOf(map[string]string{"HOME": home})}
	want, err := source.Resolve()
	if err != nil || want.Mode != Legacy || want.MaxAttempts != 7 {
		t.Fatal(want, err)
	}
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 10 {
				if got, err := source.Resolve(); err != nil || got != want {
					t.Errorf("got %+v, %v, want %+v", got, err, want)
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkLoad1000Profiles(b *testing.B) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "[profile team-%d]\nregion = eu-west-1\nsso_account_id = %012d\noutput = json\n"+
			"s3 =\n  max_concurrent_requests = 20\nretry_mode = adaptive\nmax_attempts = 7\n\n", i, i)
	}
	dir := b.TempDir()
	source := Source{
		Profile:         "team-999",
		ConfigFile:      filepath.Join(dir, "config"),
		CredentialsFile: filepath.Join(dir, "none"),
		Getenv:          getenvOf(nil),
	}
	writeFile(b, source.ConfigFile, text.String())
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		t, err := Load(source)
		if err != nil {
			b.Fatal(err)
		}
		if diff := cmp.Diff([]any{Adaptive, 7}, []any{t.Mode, t.MaxAttempts}); diff != "" {
			b.Fatal(diff)
		}
	}
}
