package awssdk

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/awsconfig/drawn"
	"example.com/awsretry/internal/worlds"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// clearEnv unsets the variables that the SDK reads.
func clearEnv(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
}

// setHome writes the two files, and sets the variables that Load reads.
func setHome(t *testing.T, home string, d drawn.Home) {
	t.Helper()
	for name, text := range map[string]string{"config": d.Config, "credentials": d.Credentials} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, "credentials"))
	for _, name := range []string{"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"} {
		t.Setenv(name, d.Env[name])
	}
}

// sdkSettings returns what LoadDefaultConfig reads.
func sdkSettings(t *testing.T, profile string) (cfg aws.Config, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return config.LoadDefaultConfig(t.Context(), config.WithSharedConfigProfile(profile))
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// located is an error that names a line.
var located = regexp.MustCompile(`^awssdk: (.*) \[.*\] (retry_mode|max_attempts), line (\d+), is `)

// Load returns what LoadDefaultConfig returns, and an error where it fails. The
// line that an error names has the setting.
func TestLawOfLoad(t *testing.T) {
	clearEnv(t)
	var equal, failed, lines int
	worlds.Each(t, 100, func(t *testing.T, r *rand.Rand) {
		home := t.TempDir()
		for range 100 {
			files := drawn.New(r)
			setHome(t, home, files)
			profile := ""
			if worlds.Chance(r, .1) {
				profile = worlds.Pick(r, "p", "default", "none")
			}
			sdk, sdkErr := sdkSettings(t, profile)
			c, err := Load(awsretry.Source{Profile: profile})
			describe := func() string {
				return fmt.Sprintf("profile %q, config %q, credentials %q, environment %v: %+v, %v; SDK: %s, %d, %v",
					profile, files.Config, files.Credentials, files.Env, c, err, sdk.RetryMode, sdk.RetryMaxAttempts, sdkErr)
			}
			switch {
			case sdkErr != nil || sdk.RetryMaxAttempts < 0:
				failed++
				if err == nil || !strings.HasPrefix(err.Error(), "awssdk: ") ||
					!strings.Contains(err.Error(), home) && !strings.Contains(err.Error(), "environment ") {
					t.Fatal(describe())
				}
			case err != nil, c.Mode != cmp.Or(awsretry.Mode(sdk.RetryMode), awsretry.Standard), c.MaxAttempts != sdk.RetryMaxAttempts:
				t.Fatal(describe())
			default:
				equal++
			}
			if at := located.FindStringSubmatch(fmt.Sprint(err)); at != nil {
				lines++
				text, _ := os.ReadFile(at[1])
				number, _ := strconv.Atoi(at[3])
				all := strings.Split(lineEnds.Replace(string(text)), "\n")
				if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(all[number-1])), at[2]) {
					t.Fatal(describe())
				}
			}
		}
	})
	if t.Logf("%d equal, %d errors, %d of them with a line", equal, failed, lines); min(equal, failed) < 100 || lines == 0 {
		t.Error("too few")
	}
}

func TestLoad(t *testing.T) {
	clearEnv(t)
	home := t.TempDir()
	const modes, attempts = "it must be standard or adaptive", "it must be a whole number, 0 or above (0: not set, 1: never retry)"
	for _, tt := range []struct {
		name, config, credentials string
		env                       map[string]string
		want                      string // or the beginning of the error; HOME is the directory of the files
	}{
		{"nothing", "", "", nil, "standard 0 default"},
		{"indented below a value", "[default]\nregion = x\n  retry_mode = adaptive\n", "", nil, "adaptive 0 default"},
		{"indented below a setting", "[default]\nretry_mode = adaptive\n  max_attempts = 7\n", "", nil, "adaptive 7 default"},
		{"in a block", "[default]\ns3 =\n  max_attempts = 7\n", "", nil, "standard 0 default"},
		{"in quotes", "[default]\nretry_mode = 'adaptive'\nmax_attempts = \"7\"\n", "", nil, "adaptive 7 default"},
		{"indented header", "[profile q]\na = b\n  [default]\n  max_attempts = 7\n", "", nil, "standard 7 default"},
		{"name with a space", "[profile my p]\nretry_mode = adaptive\n", "[my p]\nmax_attempts = 7\n",
			map[string]string{"AWS_PROFILE": "my p"}, "adaptive 7 default"},
		{"not UTF-8", "[default]\nname = M\xfcller\nmax_attempts = 7\n", "", nil, "standard 7 default"},
		{"0 attempts", "[default]\nmax_attempts = 7\n", "", map[string]string{"AWS_MAX_ATTEMPTS": "0"}, "standard 7 default"},
		{"0 attempts in a file", "[default]\nmax_attempts = 7\n", "[default]\nmax_attempts = 0\n", nil, "standard 0 default"},
		{"revision", "", "", map[string]string{"AWS_NEW_RETRIES_2026": "true"}, "standard 0 2026"},
		{"older revision", "", "", map[string]string{"AWS_NEW_RETRIES_2026": "False"}, "standard 0 classic"},
		{"missing, not required", "", "", map[string]string{"AWS_DEFAULT_PROFILE": "none"}, "standard 0 default"},
		{"literal path", "", "", map[string]string{"AWS_CONFIG_FILE": "~/config", "HOME": home}, "standard 0 default"},
		{"home directory", "", "", map[string]string{"AWS_CONFIG_FILE": "", "HOME": "testdata"}, "standard 0 default"},

		{"missing", "", "", map[string]string{"AWS_PROFILE": "none"}, `awssdk: environment AWS_PROFILE is "none"; ` +
			`it must be a profile that is in HOME/config as [profile NAME], without quotes, or in HOME/credentials as [NAME]`},
		{"revision of another kind", "", "", map[string]string{"AWS_NEW_RETRIES_2026": "1"},
			`awssdk: environment AWS_NEW_RETRIES_2026 is "1"; it must be true or false`},
		{"mode in the environment", "", "", map[string]string{"AWS_RETRY_MODE": "legacy"},
			`awssdk: environment AWS_RETRY_MODE is "legacy"; ` + modes},
		{"attempts in the environment", "", "", map[string]string{"AWS_MAX_ATTEMPTS": "0x7"},
			`awssdk: environment AWS_MAX_ATTEMPTS is "0x7"; ` + attempts},
		{"overridden mode", "[default]\n\nretry_mode = fast\n", "", map[string]string{"AWS_RETRY_MODE": "adaptive"},
			`awssdk: HOME/config [default] retry_mode, line 3, is "fast"; ` + modes + " (error fetching config"},
		{"attempts", "[default]\nmax_attempts = 7\n", "[default]\nmax_attempts = 'many'\n", nil,
			`awssdk: HOME/credentials [default] max_attempts, line 2, is "many"; ` + attempts + " (error fetching config"},
		{"attempts below 0", "[default]\nmax_attempts = -1\n", "", nil,
			`awssdk: HOME/config [default] max_attempts, line 2, is "-1"; ` + attempts + " (max_attempts below 0"},
		{"another setting", "[default]\ndefaults_mode = fast\n", "", nil,
			`awssdk: profile "default" of HOME/config and HOME/credentials: error fetching config`},
		{"another profile is missing", "[default]\nrole_arn = x\nsource_profile = q\n", "", nil,
			`awssdk: profile "default" of HOME/config and HOME/credentials: failed to load assume role`},
		{"one quote", "[default]\nname = '\n", "", nil,
			`awssdk: profile "default" of HOME/config and HOME/credentials: the AWS SDK panics: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setHome(t, home, drawn.Home{Config: tt.config, Credentials: tt.credentials})
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			c, err := Load(awsretry.Source{})
			got := fmt.Sprintf("%s %d %s", c.Mode, c.MaxAttempts, c.Revision)
			if err != nil {
				got = strings.ReplaceAll(err.Error(), home, "HOME")
			}
			if !strings.HasPrefix(got, tt.want) || err == nil && got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// The files and the environment of a Source take precedence over those of the process.
func TestLoadSource(t *testing.T) {
	clearEnv(t)
	home, other := t.TempDir(), t.TempDir()
	setHome(t, home, drawn.Home{Config: "[default]\nmax_attempts = 7\n"})
	setHome(t, other, drawn.Home{Config: "[profile p]\nmax_attempts = 8\n"})
	getenv := func(name string) string {
		return map[string]string{"AWS_CONFIG_FILE": filepath.Join(home, "config"), "AWS_RETRY_MODE": "adaptive"}[name]
	}
	for want, source := range map[string]awsretry.Source{
		"standard 8": {Profile: "p"},
		"adaptive 7": {Getenv: getenv},
		"adaptive 8": {Getenv: getenv, Profile: "p", ConfigFile: filepath.Join(other, "config")},
	} {
		if c, err := Load(source); err != nil || fmt.Sprint(c.Mode, " ", c.MaxAttempts) != want {
			t.Errorf("got %s %d, %v; want %s", c.Mode, c.MaxAttempts, err, want)
		}
	}
}
