package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A roleWorld is an EC2 instance, whose metadata service hands out credentials
// of a role, and a table that serves a number of requests a second.
type roleWorld struct {
	life      time.Duration // of the credentials
	perSecond int
	busy      int // requests that the metadata service throttles first

	mu      sync.Mutex // guards the fields below
	issued  int
	expires map[string]time.Time
	second  time.Time
	served  int // in that second
}

func (w *roleWorld) Do(req *http.Request) (*http.Response, error) {
	time.Sleep(5 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	status, body := w.respond(req)
	return &http.Response{
		StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: req,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}},
	}, nil
}

func (w *roleWorld) respond(req *http.Request) (status int, body string) {
	const path = "/latest/meta-data/iam/security-credentials"
	switch metadata := req.URL.Host == "metadata.test"; {
	case metadata && w.busy > 0:
		w.busy--
		return 429, ""
	case req.URL.Path == "/latest/api/token":
		return 200, "token"
	case metadata && strings.Trim(strings.TrimPrefix(req.URL.Path, path), "/") == "":
		return 200, "worker"
	case metadata:
		w.issued++
		key, end := keyOfAccount(w.issued), time.Now().Add(w.life)
		w.expires[key] = end
		text, err := json.Marshal(map[string]any{
			"Code": "Success", "AccessKeyId": key, "SecretAccessKey": "s", "Token": "t", "Expiration": end.UTC().Format(time.RFC3339),
		})
		if err != nil {
			return 500, ""
		}
		return 200, string(text)
	}
	_, key, _ := strings.Cut(req.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	if time.Now().After(w.expires[key]) {
		return 400, `{"__type":"com.amazonaws.service#ExpiredTokenException"}`
	}
	if second := time.Now().Truncate(time.Second); second != w.second {
		w.second, w.served = second, 0
	}
	if w.served++; w.served > w.perSecond {
		return 400, `{"__type":"com.amazonaws.service#ThrottlingException"}`
	}
	return 200, "{}"
}

// keyOfAccount returns the ID of the n-th key of an account.
func keyOfAccount(n int) string {
	return "ASIAQNZGKIQYW" + strings.Map(func(digit rune) rune { return digit - '0' + 'A' }, fmt.Sprintf("%07d", n))
}

// An sdkLine waits for a send token of the SDK's. The SDK itself waits in vain
// in virtual time, where it rounds the wait down to nothing.
type sdkLine struct{ aws.RetryerV2 }

func (l sdkLine) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	for {
		release, err := l.RetryerV2.GetAttemptToken(ctx)
		if err == nil {
			return release, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// The calls for a role's credentials do not wait in the line of the service
// whose call needs them. The SDK, whose clients share nothing, shows what is
// possible.
func TestRoleCredentialsInAdaptiveMode(t *testing.T) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	ways := map[string]func(*awssdk.Retryer) []func(*config.LoadOptions) error{
		"SDK": func(*awssdk.Retryer) []func(*config.LoadOptions) error {
			return []func(*config.LoadOptions) error{
				config.WithRetryer(func() aws.Retryer {
					return sdkLine{retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) { o.FailOnNoAttemptTokens = true })}
				}),
			}
		},
		"two fields": func(r *awssdk.Retryer) []func(*config.LoadOptions) error {
			var applied aws.Config
			r.Apply(&applied)
			return []func(*config.LoadOptions) error{
				config.WithRetryer(applied.Retryer), config.WithAPIOptions(applied.APIOptions),
			}
		},
		"Apply alone": nil,
	}
	for name, options := range ways {
		for _, busy := range []int{0, 2} {
			t.Run(fmt.Sprint(name, ", busy ", busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					world := &roleWorld{life: 20 * time.Second, perSecond: 5, busy: busy, expires: make(map[string]time.Time)}
					r := newRetryer(t, awssdk.Config{Mode: awsretry.Adaptive, Backoff: awsretry.Exponential{}})
					load := []func(*config.LoadOptions) error{
						config.WithRegion("us-east-1"), config.WithHTTPClient(world),
						config.WithEC2IMDSEndpoint("http://metadata.test"),
						config.WithSharedConfigFiles([]string{}), config.WithSharedCredentialsFiles([]string{}),
					}
					if options != nil {
						load = append(load, options(r)...)
					}
					cfg := kit.Must[aws.Config](t)(config.LoadDefaultConfig(t.Context(), load...))
					if options == nil {
						r.Apply(&cfg)
					}
					done, failed := callsOfMinute(t, dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
						o.DisableValidateResponseChecksum = true
					}))
					t.Logf("%d calls succeeded, %d failed", done, failed)
					if done < 250 || failed > 20 {
						t.Errorf("%d calls succeeded, want 250; %d failed, want 20 at most", done, failed)
					}
				})
			})
		}
	}
}

// callsOfMinute makes calls by 64 workers for a minute, and counts those that
// succeeded and failed.
func callsOfMinute(t *testing.T, client *dynamodb.Client) (done, failed int) {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		key  = map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "v"}}
		stop = time.Now().Add(time.Minute)
	)
	for range 64 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				_, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"), Key: key})
				mu.Lock()
				if err != nil {
					failed++
				} else {
					done++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return done, failed
}
