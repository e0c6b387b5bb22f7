package clients

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/google/go-cmp/cmp"
)

// assumedRole is the response of AWS STS to AssumeRole.
const assumedRole = `<AssumeRoleResponse><AssumeRoleResult><Credentials>
<AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>`

// roleProfile writes a configuration file with a profile "batch", whose
// credentials are those of a role, from AWS STS at url.
func roleProfile(t *testing.T, url string) string {
	file := filepath.Join(t.TempDir(), "config")
	kit.WriteFile(t, file, fmt.Appendf(nil, `
[profile batch]
region = us-east-1
role_arn = arn:aws:iam::123456789012:role/batch
source_profile = source
services = here
[profile source]
aws_access_key_id = SOURCE
aws_secret_access_key = secret
[services here]
sts =
  endpoint_url = %s
`, url))
	return file
}

// The clients for credentials that LoadDefaultConfig makes retry by the Retryer
// if it is given to it, as README and docs/MIGRATION.md say.
func TestRetryerOfCredentials(t *testing.T) {
	attempts := []string{"attempt=1; max=5", "attempt=2; max=5", "attempt=3; max=5", "attempt=4; max=5"}
	for _, tt := range []struct {
		name     string
		load     func(context.Context, *awssdk.Retryer, config.LoadOptionsFunc) (aws.Config, error)
		failures int
		sts      []string
		observed map[string]int // attempts, by partition
	}{
		{
			"WithRetryer and WithAPIOptions",
			func(ctx context.Context, r *awssdk.Retryer, role config.LoadOptionsFunc) (aws.Config, error) {
				var applied aws.Config
				r.Apply(&applied)
				return config.LoadDefaultConfig(ctx, role,
					config.WithRetryer(applied.Retryer), config.WithAPIOptions(applied.APIOptions))
			},
			3, attempts, map[string]int{"STS us-east-1": 4, sqsPartition: 4},
		},
		{
			"Apply alone: not those for credentials",
			func(ctx context.Context, r *awssdk.Retryer, role config.LoadOptionsFunc) (aws.Config, error) {
				cfg, err := config.LoadDefaultConfig(ctx, role)
				r.Apply(&cfg)
				return cfg, err
			},
			0, []string{"attempt=1; max=7"}, map[string]int{sqsPartition: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			headers := make(map[string][]string) // Amz-Sdk-Request, by service
			srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
				service, response := "STS", assumedRole
				if r.Header.Get("X-Amz-Target") != "" {
					service, response = "SQS", sqsSent.body
					w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				}
				headers[service] = append(headers[service], r.Header.Get("Amz-Sdk-Request"))
				if len(headers[service]) <= tt.failures {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				io.WriteString(w, response)
			})
			for _, variable := range os.Environ() {
				if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
					t.Setenv(name, "")
				}
			}
			t.Setenv("AWS_MAX_ATTEMPTS", "7")
			role := func(o *config.LoadOptions) error {
				o.SharedConfigProfile = "batch"
				o.SharedConfigFiles = []string{roleProfile(t, srv.URL)}
				o.SharedCredentialsFiles = []string{}
				o.HTTPClient = &http.Client{Transport: srv.Base}
				return nil
			}
			observed := make(map[string]int)
			r := newRetryer(t, awssdk.Config{
				Revision: awsretry.Classic, MaxAttempts: 5, Backoff: awsretry.Exponential{Initial: time.Millisecond},
				Observe: func(a awsretry.Attempt) { observed[strings.Join(strings.Fields(a.Partition)[:2], " ")]++ },
			})
			cfg := kit.Must[aws.Config](t)(tt.load(t.Context(), r, role))
			cfg.BaseEndpoint = aws.String(srv.URL)
			if err := sqsSend(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			want := map[string][]string{"STS": tt.sts, "SQS": attempts[:tt.failures+1]}
			if diff := cmp.Diff(want, headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.observed, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
			wantTokens(t, r, sqsPartition, 500-5*max(tt.failures-1, 0))
			if tt.failures > 0 {
				wantTokens(t, r, "STS us-east-1", 500-5*(tt.failures-1))
			}
		})
	}
}
