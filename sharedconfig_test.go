package awsretry

import (
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

// awsHome is a home directory with the two files.
func awsHome(t testing.TB, config, credentials string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config": config, "credentials": credentials} {
		if err := os.WriteFile(filepath.Join(home, ".aws", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestResolveEnvironment(t *testing.T) {
	const (
		mode     = "AWS_RETRY_MODE"
		attempts = "AWS_MAX_ATTEMPTS"
		revision = "AWS_NEW_RETRIES_2026"

		modeError     = "; it must be standard, adaptive or legacy"
		attemptsError = "; it must be a whole number above 0 in decimal digits (1: never retry)"
		revisionError = "; it must be true or false"
	)
	defaults := Settings{Standard, 3, Classic, "default", "default", "default"}
	tests := []struct {
		variable, value string
		want            Settings
		wantError       string
	}{
		{mode, "", defaults, ""},
		{mode, " \t", defaults, ""},
		{mode, "standard", Settings{Standard, 3, Classic, "environment " + mode, "default", "default"}, ""},
		{mode, "adaptive", Settings{Adaptive, 3, Classic, "environment " + mode, "default", "default"}, ""},
		{mode, "legacy", Settings{Legacy, 4, Classic, "environment " + mode, "default", "default"}, ""},
		{mode, " LeGaCy\n", Settings{Legacy, 4, Classic, "environment " + mode, "default", "default"}, ""},
		{mode, "fast", Settings{}, `awsretry: environment AWS_RETRY_MODE is "fast"` + modeError},
		{mode, "standard,", Settings{}, `awsretry: environment AWS_RETRY_MODE is "standard,"` + modeError},
		{mode, "adaptİve", Settings{}, `awsretry: environment AWS_RETRY_MODE is "adaptİve"` + modeError},
		{mode, "standard\nx", Settings{}, `awsretry: environment AWS_RETRY_MODE is "standard\nx"` + modeError},

		{attempts, "", defaults, ""},
		{attempts, " ", defaults, ""},
		{attempts, "1", Settings{Standard, 1, Classic, "default", "environment " + attempts, "default"}, ""},
		{attempts, " 3 ", Settings{Standard, 3, Classic, "default", "environment " + attempts, "default"}, ""},
		{attempts, "007", Settings{Standard, 7, Classic, "default", "environment " + attempts, "default"}, ""},
		{attempts, "2147483647", Settings{Standard, 2147483647, Classic, "default", "environment " + attempts, "default"}, ""},
		{attempts, "0", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "0"` + attemptsError},
		{attempts, "00", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "00"` + attemptsError},
		{attempts, "-1", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "-1"` + attemptsError},
		{attempts, "+3", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "+3"` + attemptsError},
		{attempts, "3.0", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "3.0"` + attemptsError},
		{attempts, "3e0", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "3e0"` + attemptsError},
		{attempts, "0x3", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "0x3"` + attemptsError},
		{attempts, "1_0", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "1_0"` + attemptsError},
		{attempts, "٣", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "٣"` + attemptsError},
		{attempts, "three", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "three"` + attemptsError},
		{attempts, "99999999999999999999", Settings{}, `awsretry: environment AWS_MAX_ATTEMPTS is "99999999999999999999"` + attemptsError + " and at most " + strconv.Itoa(math.MaxInt)},

		{revision, "", defaults, ""},
		{revision, "true", Settings{Standard, 3, Revision2026, "default", "default", "environment " + revision}, ""},
		{revision, " TRUE ", Settings{Standard, 3, Revision2026, "default", "default", "environment " + revision}, ""},
		{revision, "False", Settings{Standard, 3, Classic, "default", "default", "environment " + revision}, ""},
		{revision, "1", Settings{}, `awsretry: environment AWS_NEW_RETRIES_2026 is "1"` + revisionError},
		{revision, "falſe", Settings{}, `awsretry: environment AWS_NEW_RETRIES_2026 is "falſe"` + revisionError},
	}
	for _, test := range tests {
		t.Run(test.variable+"="+test.value, func(t *testing.T) {
			got, err := Source{Getenv: getenvOf(map[string]string{"HOME": t.TempDir(), test.variable: test.value})}.Resolve()
			if message := errorText(err); message != test.wantError {
				t.Errorf("got error %q, want %q", message, test.wantError)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// HOME in the wants stands for the home directory.
func TestResolveOrder(t *testing.T) {
	tests := []struct {
		name                string
		env                 map[string]string
		config, credentials string
		want                Settings
		wantError           string
	}{
		{
			name: "nothing",
			want: Settings{Standard, 3, Classic, "default", "default", "default"},
		},
		{
			name:   "config file",
			config: "[default]\nretry_mode = legacy\nmax_attempts = 2\n",
			want:   Settings{Legacy, 2, Classic, "HOME/.aws/config [default] retry_mode", "HOME/.aws/config [default] max_attempts", "default"},
		},
		{
			name:   "config file, profile default",
			config: "[profile default]\nRETRY_MODE = legacy\n",
			want:   Settings{Legacy, 4, Classic, "HOME/.aws/config [profile default] retry_mode", "default", "default"},
		},
		{
			name:        "credentials before config",
			config:      "[default]\nretry_mode = legacy\nmax_attempts = 2\n",
			credentials: "[default]\nretry_mode = adaptive\n",
			want:        Settings{Adaptive, 2, Classic, "HOME/.aws/credentials [default] retry_mode", "HOME/.aws/config [default] max_attempts", "default"},
		},
		{
			name:        "environment before credentials",
			env:         map[string]string{"AWS_RETRY_MODE": "standard", "AWS_NEW_RETRIES_2026": "true"},
			config:      "[default]\nretry_mode = legacy\n",
			credentials: "[default]\nretry_mode = adaptive\nmax_attempts = 2\n",
			want:        Settings{Standard, 2, Revision2026, "environment AWS_RETRY_MODE", "HOME/.aws/credentials [default] max_attempts", "environment AWS_NEW_RETRIES_2026"},
		},
		{
			name:        "default attempts follow the mode that won",
			env:         map[string]string{"AWS_RETRY_MODE": "legacy"},
			config:      "[default]\nretry_mode = standard\n",
			credentials: "[default]\nretry_mode = adaptive\n",
			want:        Settings{Legacy, 4, Classic, "environment AWS_RETRY_MODE", "default", "default"},
		},
		{
			name:        "an empty value is not set",
			env:         map[string]string{"AWS_RETRY_MODE": " ", "AWS_MAX_ATTEMPTS": ""},
			config:      "[default]\nretry_mode = legacy\nmax_attempts = 2\n",
			credentials: "[default]\nretry_mode =\nmax_attempts = # none\n",
			want:        Settings{Legacy, 2, Classic, "HOME/.aws/config [default] retry_mode", "HOME/.aws/config [default] max_attempts", "default"},
		},
		{
			name:        "an overridden value is not judged",
			env:         map[string]string{"AWS_MAX_ATTEMPTS": "5"},
			config:      "[default]\nretry_mode = fast\nmax_attempts = 0\n",
			credentials: "[default]\nretry_mode = adaptive\nmax_attempts = -1\n",
			want:        Settings{Adaptive, 5, Classic, "HOME/.aws/credentials [default] retry_mode", "environment AWS_MAX_ATTEMPTS", "default"},
		},
		{
			name:        "the strongest value is judged although a weaker one is sound",
			config:      "[default]\nmax_attempts = 2\n",
			credentials: "[default]\nmax_attempts = 0\n",
			wantError:   `awsretry: HOME/.aws/credentials [default] max_attempts is "0"; it must be a whole number above 0 in decimal digits (1: never retry)`,
		},
		{
			name:        "profile by variable",
			env:         map[string]string{"AWS_PROFILE": " p "},
			config:      "[default]\nretry_mode = fast\n[profile p]\nretry_mode = legacy\n[p]\nretry_mode = standard\n",
			credentials: "[default]\nmax_attempts = 0\n[profile p]\nmax_attempts = 1\n[p]\nmax_attempts = 9\n",
			want:        Settings{Legacy, 9, Classic, "HOME/.aws/config [profile p] retry_mode", "HOME/.aws/credentials [p] max_attempts", "default"},
		},
		{
			name:        "profile in the credentials file only",
			env:         map[string]string{"AWS_PROFILE": "p"},
			config:      "[default]\nretry_mode = legacy\n",
			credentials: "[\"p\"]\nmax_attempts = 9\n",
			want:        Settings{Standard, 9, Classic, "default", "HOME/.aws/credentials [p] max_attempts", "default"},
		},
		{
			name:   "profile without settings",
			env:    map[string]string{"AWS_PROFILE": "p"},
			config: "[default]\nretry_mode = legacy\n[profile p]\n",
			want:   Settings{Standard, 3, Classic, "default", "default", "default"},
		},
		{
			name: "profile default by name need not exist",
			env:  map[string]string{"AWS_PROFILE": "default"},
			want: Settings{Standard, 3, Classic, "default", "default", "default"},
		},
		{
			name:        "profile that stands nowhere",
			env:         map[string]string{"AWS_PROFILE": "q", "AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "1"},
			config:      "[q]\n",
			credentials: "[profile q]\n",
			wantError: `awsretry: environment AWS_PROFILE is "q"; it must be a profile that stands in HOME/.aws/config as [profile NAME] ` +
				`or in HOME/.aws/credentials as [NAME], named with letters, digits and -/.%@_:+`,
		},
		{
			name:        "a line of the credentials file that cannot be read",
			env:         map[string]string{"AWS_RETRY_MODE": "legacy", "AWS_MAX_ATTEMPTS": "1"},
			credentials: "[default]\naws_secret_access_key\n",
			wantError: "awsretry: HOME/.aws/credentials line 2, in [default], cannot be read: it has no = or :; allowed are NAME = VALUE, NAME: VALUE, " +
				"[SECTION], a line that begins with # or ;, and under a value the lines indented deeper than it that continue it",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			home := awsHome(t, test.config, test.credentials)
			env := map[string]string{"HOME": home}
			for k, v := range test.env {
				env[k] = v
			}
			got, err := Source{Getenv: getenvOf(env)}.Resolve()
			inHome := func(s string) string {
				return strings.ReplaceAll(strings.ReplaceAll(s, "HOME/.aws/", filepath.Join(home, ".aws")+string(filepath.Separator)), "HOME", home)
			}
			if got, want := errorText(err), inHome(test.wantError); got != want {
				t.Errorf("got error %q\nwant %q", got, want)
			}
			want := test.want
			want.ModeFrom, want.MaxAttemptsFrom = inHome(want.ModeFrom), inHome(want.MaxAttemptsFrom)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}
}

// Each file sets max_attempts to a number of its own, which says which file was read.
func TestResolvePaths(t *testing.T) {
	home := awsHome(t, "[default]\nmax_attempts = 11\n", "")
	other := awsHome(t, "[default]\nmax_attempts = 12\n", "[default]\nmax_attempts = 13\n")
	named := writeFile(t, "named", "[default]\nmax_attempts = 14\n[profile p]\nmax_attempts = 15\n[profile q]\nmax_attempts = 16\n")
	inHome := filepath.Join(home, "config in home")
	if err := os.WriteFile(inHome, []byte("[default]\nmax_attempts = 17\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"AWS_CONFIG_FILE below home", map[string]string{"HOME": home, "AWS_CONFIG_FILE": "~/config in home"}, Source{}, 17},
		{"AWS_CONFIG_FILE that is missing", map[string]string{"HOME": home, "AWS_CONFIG_FILE": none}, Source{}, 3},
		{"AWS_CONFIG_FILE of another user's", map[string]string{"HOME": home, "AWS_CONFIG_FILE": "~root/none"}, Source{}, 3},
		{"AWS_SHARED_CREDENTIALS_FILE", map[string]string{"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(other, ".aws", "credentials")}, Source{}, 13},
		{"AWS_SHARED_CREDENTIALS_FILE below home", map[string]string{"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": "~/config in home"}, Source{}, 17},
		{"one file for both", map[string]string{"HOME": home, "AWS_CONFIG_FILE": named, "AWS_SHARED_CREDENTIALS_FILE": named}, Source{}, 14},
		{"ConfigFile before AWS_CONFIG_FILE", map[string]string{"HOME": home, "AWS_CONFIG_FILE": named}, Source{ConfigFile: inHome}, 17},
		{"ConfigFile that is missing", map[string]string{"HOME": home, "AWS_CONFIG_FILE": named}, Source{ConfigFile: none}, 3},
		{"ConfigFile with a ~", map[string]string{"HOME": home}, Source{ConfigFile: "~/config in home"}, 3},
		{"CredentialsFile before AWS_SHARED_CREDENTIALS_FILE", map[string]string{"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": inHome}, Source{CredentialsFile: named}, 14},
		{"AWS_PROFILE", map[string]string{"AWS_CONFIG_FILE": named, "AWS_PROFILE": "p"}, Source{}, 15},
		{"Profile before AWS_PROFILE", map[string]string{"AWS_CONFIG_FILE": named, "AWS_PROFILE": "p"}, Source{Profile: "q"}, 16},
		{"home that is a file", map[string]string{"HOME": os.DevNull}, Source{}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && test.name == "home that is a file" {
				t.Skip("NUL is no file there")
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
		{"variables", map[string]string{"AWS_CONFIG_FILE": "~/c", "AWS_SHARED_CREDENTIALS_FILE": "/x/y"}, Source{}, inHome("c"), "/x/y"},
		{"fields", map[string]string{"AWS_CONFIG_FILE": "c", "AWS_SHARED_CREDENTIALS_FILE": "d"},
			Source{ConfigFile: "e", CredentialsFile: "f"}, "e", "f"},
	} {
		env := map[string]string{"HOME": home}
		for k, v := range test.env {
			env[k] = v
		}
		test.source.Getenv = getenvOf(env)
		if config, credentials := test.source.Files(); config != test.config || credentials != test.credentials {
			t.Errorf("%s: got %s and %s, want %s and %s", test.name, config, credentials, test.config, test.credentials)
		}
	}
}

func TestResolveZeroSourceReadsThisProcess(t *testing.T) {
	home := awsHome(t, "[profile p]\nmax_attempts = 7\n", "[p]\nretry_mode = legacy\n")
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("AWS_PROFILE", "p")
	t.Setenv("AWS_NEW_RETRIES_2026", "TRUE")
	aws := filepath.Join(home, ".aws") + string(filepath.Separator)
	want := Settings{Legacy, 7, Revision2026, aws + "credentials [p] retry_mode", aws + "config [profile p] max_attempts", "environment AWS_NEW_RETRIES_2026"}
	for name, source := range map[string]Source{
		"zero":                    {},
		"Getenv that has no HOME": {Profile: "p", Getenv: getenvOf(map[string]string{"AWS_NEW_RETRIES_2026": "true"})},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && source.Getenv != nil {
				t.Skip("os.UserHomeDir does not look at HOME there")
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
	tests := []struct {
		name   string
		env    map[string]string
		config string
		want   fields
	}{
		{"nothing set", nil, "", fields{Mode: Standard}},
		{"default attempts stay open", map[string]string{"AWS_RETRY_MODE": "legacy"}, "", fields{Mode: Legacy}},
		{"attempts equal to the default are set", map[string]string{"AWS_MAX_ATTEMPTS": "3"}, "", fields{Mode: Standard, MaxAttempts: 3}},
		{"all set", map[string]string{"AWS_NEW_RETRIES_2026": "true"}, "[default]\nretry_mode=adaptive\nmax_attempts=9\n", fields{Mode: Adaptive, MaxAttempts: 9, Revision: Revision2026}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"HOME": awsHome(t, test.config, "")}
			for k, v := range test.env {
				env[k] = v
			}
			got, err := Load(Source{Getenv: getenvOf(env)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, fields{got.Mode, got.MaxAttempts, got.Revision}); diff != "" {
				t.Error("-want +got", diff)
			}
		})
	}
	got, err := Load(Source{Getenv: getenvOf(map[string]string{"HOME": t.TempDir(), "AWS_MAX_ATTEMPTS": "0"})})
	if got != nil || err == nil || !strings.HasPrefix(err.Error(), `awsretry: environment AWS_MAX_ATTEMPTS is "0"`) {
		t.Errorf("got %v, %v beside a value that is not valid", got, err)
	}
}

func TestResolveConcurrently(t *testing.T) {
	source := Source{Getenv: getenvOf(map[string]string{"HOME": awsHome(t, "[default]\nretry_mode = legacy\n", "[default]\nmax_attempts = 7\n")})}
	want, err := source.Resolve()
	if err != nil || brief(want) != "legacy 7" {
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
