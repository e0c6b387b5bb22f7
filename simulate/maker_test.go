package simulate

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/simulate/scenario"
)

// retryAfter100ms makes a loop like naive's.
func retryAfter100ms(base http.RoundTripper) http.RoundTripper {
	return httpfake.Base(func(req *http.Request) (*http.Response, error) {
		for attempt := 1; ; attempt++ {
			resp, err := base.RoundTrip(req)
			if err == nil && resp.StatusCode == http.StatusOK || attempt == 3 {
				return resp, err
			}
			var timeout interface{ Timeout() bool }
			if err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) {
				return nil, err
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// A call that is refused before its first attempt takes no time. Its caller
// continues after the network's time, or virtual time would hardly advance.
func TestUnsentCallsTakeTime(t *testing.T) {
	refuse := func(http.RoundTripper) http.RoundTripper {
		return httpfake.Base(func(*http.Request) (*http.Response, error) { return nil, errors.New("no") })
	}
	o := mustRun(t, tiny(scenario.Setting{Name: "refuse", New: refuse})).Outcomes[0]
	if o.Calls != 5000 || o.Failed != 5000 || o.Attempts != 0 {
		t.Errorf("%d calls and %d attempts, want 5000 calls, 2 ms apart, and no attempt", o.Calls, o.Attempts)
	}
}

// A RoundTripper that hides the call's context fails the call.
func TestForeignContext(t *testing.T) {
	hide := func(base http.RoundTripper) http.RoundTripper {
		return httpfake.Base(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req.WithContext(context.Background()))
			if err == nil || !strings.Contains(err.Error(), "must pass it on") {
				t.Errorf("got %v, %v", resp, err)
			}
			return resp, err
		})
	}
	for _, timeout := range []scenario.Duration{0, seconds(1)} {
		s := tiny(scenario.Setting{Name: "hide", New: hide})
		s.Clients.AttemptTimeout = timeout
		if o := mustRun(t, s).Outcomes[0]; o.Good > 0 || o.Failed == 0 {
			t.Errorf("%d calls succeed and %d fail", o.Good, o.Failed)
		}
	}
}

// The time-out of a setting takes the place of the clients'.
func TestAttemptTimeout(t *testing.T) {
	for _, use := range []string{scenario.UseStandard, scenario.UseNaive, scenario.UseLegacy, scenario.UseFleet} {
		s := tiny(
			scenario.Setting{Use: use}, scenario.Setting{Use: use, Name: "shorter", AttemptTimeout: seconds(0.1)},
			scenario.Setting{Use: use, Name: "longer", AttemptTimeout: seconds(60)},
		)
		s.Clients.Timeout, s.Clients.AttemptTimeout = seconds(2), seconds(1.9)
		s.Events = []scenario.Event{{Kind: scenario.Outage, How: scenario.OutageHang, To: seconds(9)}}
		of := mustRun(t, s).Outcomes
		if of[0].Attempts*3/2 > of[1].Attempts || of[2].Attempts >= of[0].Attempts {
			t.Errorf("%s: %d attempts, with a shorter time-out %d, with a longer one %d",
				use, of[0].Attempts, of[1].Attempts, of[2].Attempts)
		}
	}
}

func TestProfileAndPolicyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv("AWS_CONFIG_FILE", write("config", "[profile ci]\nretry_mode = legacy\nmax_attempts = 2\n"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "none"))
	policy := write("policy.json",
		`{"healthyRetryPolicy": {"numRetries": 2, "minDelayTarget": 1, "maxDelayTarget": 1}}`)

	s := tiny(
		scenario.Setting{Use: scenario.UseProfile, Profile: "ci"},
		scenario.Setting{Use: scenario.UseDelivery, Policy: policy},
		scenario.Setting{Use: scenario.UseDelivery},
	)
	s.Events = []scenario.Event{{Kind: scenario.Outage, From: 0, To: seconds(9.5)}}
	r := mustRun(t, s)
	if ci := r.Outcomes[0]; ci.Series.Tokens != nil || ci.Amplification < 1.9 || ci.Amplification > 2 {
		t.Errorf("the profile's calls send %.2f attempts, want legacy mode with two", ci.Amplification)
	}
	if own := r.Outcomes[1]; own.Amplification < 2 || own.Amplification > 3 {
		t.Errorf("the policy's calls send %.2f attempts, want three", own.Amplification)
	}
	if r.Outcomes[2].Calls > 2 {
		t.Errorf("the default policy's calls fail %d times in 9.5 s, with delays up to 20 s", r.Outcomes[2].Calls)
	}

	for _, tt := range []struct {
		setting scenario.Setting
		want    string
	}{
		{scenario.Setting{Use: scenario.UseProfile, Profile: "missing"}, `setting "profile=missing"`},
		{
			scenario.Setting{Use: scenario.UseProfile, Profile: "ci", Pacing: "scaled"},
			"for adaptive mode only, and the profile's mode is legacy",
		},
		{scenario.Setting{Use: scenario.UseDelivery, Policy: dir}, "is not a regular file"},
		{
			scenario.Setting{
				Use: scenario.UseDelivery, Policy: write("bad.json", `{"healthyRetryPolicy": {"numRetries": 1000}}`),
			},
			"numRetries",
		},
	} {
		_, err := Run(t.Context(), tiny(tt.setting), Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.setting.Label(), err, tt.want)
		}
	}
}
