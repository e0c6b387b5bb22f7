package awssdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for go:linkname

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/metrics"
)

// sdkRandom is what the SDK draws its jitter from.
//
//go:linkname sdkRandom github.com/aws/aws-sdk-go-v2/internal/rand.Reader
var sdkRandom io.Reader

// ones makes every jitter the longest, except for a billionth.
type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

// Each client of a random script makes the same attempts after the same delays,
// and ends its calls with the same errors at the same time, as with the SDK's
// own retryer. The SDK's metrics see the same errors.
func TestDifferential(t *testing.T) {
	original := sdkRandom
	sdkRandom = ones{}
	t.Cleanup(func() { sdkRandom = original })
	var seen counts
	defer func() { t.Logf("equal: %+v", seen) }()
	for seed := range uint64(40) {
		script := newScript(rand.New(rand.NewPCG(seed, 0)))
		for _, tt := range []struct {
			name  string
			apply bool
			calls []scriptCall
		}{
			{"applied", true, script},
			// Without Apply, DynamoDB does not have its own rules, and neither
			// accounts nor calls within calls are known.
			{"plain", false, slices.DeleteFunc(slices.Clone(script), func(c scriptCall) bool {
				return c.operation == "GetItem" || c.account > 0 || len(c.inner) > 0
			})},
		} {
			t.Run(fmt.Sprint(tt.name, " ", seed), func(t *testing.T) {
				var want, got []string
				synctest.Test(t, func(t *testing.T) { want = play(t, tt.calls, func(*aws.Config) {}) })
				synctest.Test(t, func(t *testing.T) {
					r := mustRetryer(t, Config{Revision: awsretry.Revision2026})
					got = play(t, tt.calls, func(cfg *aws.Config) {
						if cfg.Retryer = func() aws.Retryer { return r }; tt.apply {
							r.Apply(cfg)
						}
					})
				})
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("call %d, %+v\n%s\nwant, as by the SDK,\n%s", i, tt.calls[i], got[i], want[i])
					}
					seen.count(tt.calls[i], want[i])
				}
			})
		}
	}
}

// A scriptCall is a call of an operation whose service makes the steps, and
// succeeds from then on. So does what its attempts call for credentials.
type scriptCall struct {
	account   int
	operation string
	steps     []step
	inner     []step
}

// counts are those of the calls that were compared.
type counts struct{ Calls, Nested, SecondAccount, OutOfAttempts, OutOfTokens int }

func (c *counts) count(call scriptCall, seen string) {
	for counter, holds := range map[*int]bool{
		&c.Calls: true, &c.Nested: len(call.inner) > 0, &c.SecondAccount: call.account > 0,
		&c.OutOfAttempts: strings.Contains(seen, "] "+string(awsretry.StopMaxAttempts)+" "),
		&c.OutOfTokens:   strings.Contains(seen, "] "+string(awsretry.StopQuota)+" "),
	} {
		if holds {
			*counter++
		}
	}
}

// newScript returns calls that fail often enough to empty the buckets. A value
// of X-Amz-Retry-After that overflows in the SDK is in TestAmzRetryAfter.
func newScript(random *rand.Rand) []scriptCall {
	asks := func(value string) step {
		return step{status: 500, header: map[string]string{"X-Amz-Retry-After": value}}
	}
	steps := []step{
		{status: 500}, {status: 503, code: "ServiceUnavailable"}, {status: 400, code: "ThrottlingException"},
		{status: 400, code: "RequestTimeout"}, {status: 400, code: "ValidationException"}, {err: syscall.ECONNRESET},
		asks("0"), asks("1500"), asks("+2000"), asks("60000"), asks("86400000"), asks("-1"), asks("soon"),
		{status: 429}, {status: 429, code: "Unknown"},
	}
	inner := []step{
		{status: 500}, {status: 503, code: "ServiceUnavailable"}, {status: 400, code: "ThrottlingException"},
		{status: 404}, {err: syscall.ECONNRESET},
	}
	operations := []string{"GetItem", "DeleteMessage", "ReceiveMessage"}
	calls := make([]scriptCall, 120)
	for i := range calls {
		c := &calls[i]
		if i < 6 { // the account of a client is known from its first call on
			c.account, c.operation = i/3, operations[i%3]
			continue
		}
		c.operation = operations[random.IntN(3)]
		if random.IntN(4) == 0 {
			c.account = 1 // throttled less often
		}
		// The SDK takes a call within a long poll for a long poll itself.
		if c.operation != "ReceiveMessage" && random.IntN(4) == 0 {
			for range 1 + random.IntN(9) {
				c.inner = append(c.inner, inner[random.IntN(len(inner))])
			}
		}
		for range random.IntN(6) {
			c.steps = append(c.steps, steps[random.IntN(len(steps))])
		}
	}
	return calls
}

// play makes the calls of a script, and returns what was seen of each.
func play(t *testing.T, calls []scriptCall, configure func(*aws.Config)) []string {
	var service scriptedService
	cfg := aws.Config{Region: "us-east-1", HTTPClient: &service}
	configure(&cfg)
	metadata := client{operation: "GetCredentials", keepsStack: true}
	metadataRetryer := aws.Retryer(retry.NewStandard())
	if cfg.Retryer != nil {
		metadataRetryer = cfg.Retryer()
	}
	var errorTypes []string
	meters := meterProvider{func(name string) { errorTypes = append(errorTypes, name) }}
	var tables []*dynamodb.Client
	var queues []*sqs.Client
	for _, id := range []string{"AKIDONE", "AKIDTWO"} {
		cfg.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			var err error
			if len(metadata.steps) > 0 {
				err = metadata.send(ctx, metadataRetryer, cfg.APIOptions)
			}
			return aws.Credentials{AccessKeyID: id, SecretAccessKey: "secret"}, err
		})
		tables = append(tables, dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.MeterProvider = meters }))
		queues = append(queues, sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.MeterProvider = meters }))
	}
	var seen []string
	for _, call := range calls {
		service.steps, service.sent, errorTypes = call.steps, nil, nil
		metadata.steps, metadata.sent = slices.Clone(call.inner), nil
		table, queue := tables[call.account], queues[call.account]
		start := time.Now()
		var err error
		switch call.operation {
		case "GetItem":
			_, err = table.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"), Key: map[string]types.AttributeValue{}})
		case "DeleteMessage":
			_, err = queue.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String("q"), ReceiptHandle: aws.String("r")})
		case "ReceiveMessage":
			_, err = queue.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String("q")})
		}
		stop := stopOf(err)
		if own := new(smithy.OperationError); errors.As(err, &own) {
			switch own.Err.(type) { // of the SDK
			case *retry.MaxAttemptsError:
				stop = awsretry.StopMaxAttempts
			case interface{ Unwrap() []error }:
				if !errors.As(err, new(*awsretry.Error)) {
					stop = awsretry.StopQuota
				}
			}
		}
		if stop != awsretry.StopSuccess && stop != awsretry.StopPermanent && len(errorTypes) > 0 {
			errorTypes = errorTypes[:len(errorTypes)-1] // what the loop joins or wraps
		}
		var at []time.Duration
		for _, sent := range slices.Concat(metadata.sent, service.sent, []time.Time{time.Now()}) {
			at = append(at, sent.Sub(start).Round(10*time.Microsecond))
		}
		seen = append(seen, fmt.Sprint(at, " ", stop, " ", errorTypes))
	}
	return seen
}

// A scriptedService is an aws.HTTPClient.
type scriptedService struct {
	steps []step
	sent  []time.Time
}

func (s *scriptedService) Do(req *http.Request) (*http.Response, error) {
	s.sent = append(s.sent, time.Now())
	next := step{status: 200}
	if len(s.steps) > 0 {
		next, s.steps = s.steps[0], s.steps[1:]
	}
	if next.err != nil {
		return nil, next.err
	}
	resp, body := next.response(req), "{}"
	if next.code != "" {
		body = `{"__type":"com.amazonaws.service#` + next.code + `"}`
	}
	resp.Header.Set("Content-Type", "application/x-amz-json-1.0")
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
}

// A meterProvider calls saw with each exception.type of the SDK's attempts.
type meterProvider struct{ saw func(string) }

func (p meterProvider) Meter(string, ...metrics.MeterOption) metrics.Meter {
	return meter{metrics.NopMeterProvider{}.Meter(""), p.saw}
}

type meter struct {
	metrics.Meter
	saw func(string)
}

func (m meter) Int64Counter(name string, _ ...metrics.InstrumentOption) (metrics.Int64Counter, error) {
	return counter{m.saw}, nil
}

type counter struct{ saw func(string) }

func (c counter) Add(_ context.Context, _ int64, options ...metrics.RecordMetricOption) {
	var o metrics.RecordMetricOptions
	for _, option := range options {
		option(&o)
	}
	if name, ok := o.Properties.Get("exception.type").(string); ok {
		c.saw(name)
	}
}
