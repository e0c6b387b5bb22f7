package awssdk

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Two key IDs of one account, which is 029608264753, and one of another.
const (
	firstKey  = "ASIAQNZGKIQY56JQ7WML"
	secondKey = "AKIAQNZGKIQYWAAAAAAA"
	otherKey  = "AKIASP2TPHJSQH3FJRUX"
)

// A queueService is an aws.HTTPClient that throttles the keys that it is told to.
type queueService struct {
	throttles string
	mu        sync.Mutex
	sent      []string // the bodies, guarded by mu
}

func (s *queueService) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sent = append(s.sent, string(body))
	s.mu.Unlock()
	next := step{status: 200}
	if s.throttles != "" && strings.Contains(req.Header.Get("Authorization"), "="+s.throttles+"/") {
		next = step{status: 400, header: map[string]string{"X-Amzn-Query-Error": "Throttling;Sender"}}
	}
	resp, text := next.response(req), "{}"
	if next.status != 200 {
		text = `{"__type":"Throttling"}`
	}
	resp.Header.Set("Content-Type", "application/x-amz-json-1.0")
	resp.Body = io.NopCloser(strings.NewReader(text))
	return resp, nil
}

// keyed returns a configuration with the key.
func keyed(id string, service aws.HTTPClient) aws.Config {
	return aws.Config{Region: "us-east-1", HTTPClient: service, Credentials: aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: id, SecretAccessKey: "secret"}, nil
		})}
}

func deleteMessage(ctx context.Context, queue *sqs.Client) error {
	_, err := queue.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: aws.String("q"), ReceiptHandle: aws.String("r")})
	return err
}

// The default partition is the account, the region, the service and the
// BaseEndpoint. It does not show the key.
func TestDefaultPartition(t *testing.T) {
	if got := fmt.Sprintf("%x", accountPart(firstKey)); got != fmt.Sprintf("%016x", 29608264753) {
		t.Errorf("account %s", got)
	}
	partition := func(id, region, endpoint string) (name string) {
		cfg := keyed(id, new(queueService))
		cfg.Region = region
		if endpoint != "" {
			cfg.BaseEndpoint = aws.String(endpoint)
		}
		mustRetryer(t, Config{Observe: func(a awsretry.Attempt) { name = a.Partition }}).Apply(&cfg)
		queue := sqs.NewFromConfig(cfg)
		for i := range 2 { // at the second call the account is known before it is signed
			last := name
			if err := deleteMessage(t.Context(), queue); err != nil || i > 0 && last != name {
				t.Errorf("%q, then %q: %v", last, name, err)
			}
		}
		return name
	}
	names := []string{
		partition(firstKey, "us-east-1", ""), partition(otherKey, "us-east-1", ""), partition("own", "us-east-1", ""),
		partition(firstKey, "eu-west-1", ""), partition(firstKey, "us-east-1", "http://u:pw@queues.test:81/path"),
	}
	for i, name := range names {
		if slices.Index(names, name) != i || !strings.HasPrefix(name, "SQS ") || strings.Contains(name, "pw") ||
			strings.Contains(name, "own") || strings.Contains(name, firstKey) || strings.Contains(name, "29608264753") {
			t.Errorf("partition %d is %q", i, name)
		}
	}
	if got := partition(secondKey, "us-east-1", ""); got != names[0] {
		t.Errorf("another key of the account has the partition %q, want %q", got, names[0])
	}
	if !strings.Contains(names[4], " queues.test:81 ") {
		t.Errorf("the partition of a BaseEndpoint is %q", names[4])
	}
}

// An account that is throttled does not slow down another one. One Retryer
// serves both as well as one for each.
func TestThrottledAccount(t *testing.T) {
	minute := func(t *testing.T, shared bool) (calls int) {
		service := &queueService{throttles: otherKey}
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive})
		client := func(id string) *sqs.Client {
			cfg := keyed(id, service)
			r.Apply(&cfg)
			if !shared {
				r = mustRetryer(t, Config{Mode: awsretry.Adaptive})
			}
			return sqs.NewFromConfig(cfg)
		}
		var wg sync.WaitGroup
		end := time.Now().Add(time.Minute)
		repeat := func(queue *sqs.Client, after func(error)) {
			wg.Go(func() {
				for time.Now().Before(end) {
					after(deleteMessage(t.Context(), queue))
					time.Sleep(25 * time.Millisecond)
				}
			})
		}
		repeat(client(otherKey), func(error) {})
		repeat(client(firstKey), func(err error) {
			if err == nil {
				calls++
			}
		})
		wg.Wait()
		return calls
	}
	var shared, own int
	synctest.Test(t, func(t *testing.T) { shared = minute(t, true) })
	synctest.Test(t, func(t *testing.T) { own = minute(t, false) })
	if t.Logf("%d calls a minute, %d with a Retryer of its own", shared, own); shared != own || own < 2000 {
		t.Errorf("%d calls a minute, want %d", shared, own)
	}
}

// The first call of a client waits in the line of its account, which is not known
// before the request is signed. If it waited long, it is signed anew.
func TestFirstCallOfClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &queueService{throttles: firstKey}
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.01}})
		cfg := keyed(firstKey, service)
		r.Apply(&cfg)
		for range 5 {
			_ = deleteMessage(t.Context(), sqs.NewFromConfig(cfg))
		}
		service.throttles, service.sent = "", nil
		var fetched []time.Time
		credentials := cfg.Credentials
		cfg.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			fetched = append(fetched, time.Now())
			return credentials.Retrieve(ctx)
		})
		start := time.Now()
		queue := sqs.NewFromConfig(cfg)
		if err := deleteMessage(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < 5*time.Second || len(fetched) != 2 || time.Since(fetched[1]) > 0 {
			t.Errorf("the call took %v, the credentials are of %v", waited, fetched)
		}
		if len(service.sent) != 1 || !strings.Contains(service.sent[0], "ReceiptHandle") {
			t.Errorf("sent %q", service.sent)
		}
		// The next calls of the client wait before they get credentials.
		start = time.Now()
		if err := deleteMessage(t.Context(), queue); err != nil || time.Since(start) == 0 || len(fetched) != 3 {
			t.Errorf("%d fetches, the next call took %v: %v", len(fetched), time.Since(start), err)
		}
		service.sent = service.sent[1:]
		// The first one may also be refused there.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := deleteMessage(ctx, sqs.NewFromConfig(cfg)); stopOf(err) != awsretry.StopRateLimit || len(service.sent) != 1 {
			t.Errorf("%d requests: %v", len(service.sent), err)
		}
	})
}

// The client's own limit of attempts holds in the partition of its account too.
func TestLimitOfFirstCall(t *testing.T) {
	var limits []int
	cfg := keyed(firstKey, &queueService{throttles: firstKey})
	r := mustRetryer(t, Config{
		Backoff: awsretry.Exponential{ThrottlingInitial: time.Millisecond},
		Observe: func(a awsretry.Attempt) { limits = append(limits, a.MaxAttempts) },
	})
	r.Apply(&cfg)
	err := deleteMessage(t.Context(), sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.RetryMaxAttempts = 2 }))
	if stopOf(err) != awsretry.StopMaxAttempts || !slices.Equal(limits, []int{2, 2}) {
		t.Errorf("limits %v: %v", limits, err)
	}
}

// A call within an attempt is not in the partition of that one, whatever names
// it. A client without a service has a partition without a rate limiter.
func TestNestedPartition(t *testing.T) {
	slow := step{status: 429, code: "Throttling"}
	for i := range 8 {
		named, configured, apply := i&4 != 0, i&2 != 0, i&1 != 0 // apply: of the inner call
		t.Run(fmt.Sprint(named, configured, apply), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var methods []string
				c := Config{Mode: awsretry.Adaptive, Observe: func(a awsretry.Attempt) { methods = append(methods, a.Request.Method) }}
				ctx, partition := t.Context(), "S3 us-east-1"
				if configured {
					partition = "all"
					c.Partition = func(context.Context) string { return "all" }
				}
				if named {
					partition = "bucket"
					ctx = awsretry.WithPartition(ctx, "bucket")
				}
				r := mustRetryer(t, c)
				metadata := client{operation: "GetMetadata", keepsStack: true, apply: apply}
				role := client{service: "STS", operation: "AssumeRole", apply: apply}
				outer := newClient(true)
				outer.inside = func(ctx context.Context) error {
					if err := metadata.call(ctx, r, slow, slow, step{status: 200}); err != nil {
						return err
					}
					return role.call(ctx, r, step{status: 500}, step{status: 200})
				}
				if err := outer.call(ctx, r, step{status: 200}); err != nil {
					t.Fatal(err)
				}
				sts := "STS us-east-1"
				if configured {
					sts = "all"
				}
				for name, want := range map[string]int{partition: 500, noService: 490, sts: 500} {
					if state, _ := r.State(name); state.Limited || state.Tokens != want {
						t.Errorf("%q: %+v, want %d tokens", name, state, want)
					}
				}
				if !slices.Contains(slices.Collect(names(r)), noService) {
					t.Errorf("Partitions lacks %q", noService)
				}
				if apply && methods[0] != http.MethodGet {
					t.Errorf("methods %q", methods)
				}
			})
		})
	}
}

// It has that partition also within an attempt of a client that Apply did not
// configure.
func TestNestedInPlainClient(t *testing.T) {
	r := mustRetryer(t, Config{Backoff: awsretry.Exponential{Initial: time.Millisecond}})
	metadata := client{operation: "GetMetadata", keepsStack: true, apply: true}
	outer := newClient(false)
	outer.inside = func(ctx context.Context) error {
		return metadata.call(ctx, r, step{status: 500}, step{status: 500}, step{status: 200})
	}
	if err := outer.call(t.Context(), r, step{status: 200}); err != nil {
		t.Fatal(err)
	}
	if own, s3 := tokens(t, r, noService), tokens(t, r, "S3 us-east-1"); own != 495 || s3 != 500 {
		t.Errorf("%d tokens and %d, want 495 and 500", own, s3)
	}
}

// A request that is not sent does not tell that its service throttles, whatever
// the type of the error.
func TestThrottledCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := new(queueService)
		cfg := keyed(firstKey, service)
		fails := 2
		credentials := cfg.Credentials
		cfg.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			if fails--; fails >= 0 {
				return aws.Credentials{}, step{status: 400, code: "Throttling"}.failure(new(http.Request))
			}
			return credentials.Retrieve(ctx)
		})
		var classes []awsretry.Class
		r := mustRetryer(t, Config{Mode: awsretry.Adaptive, Revision: awsretry.Revision2026,
			Observe: func(a awsretry.Attempt) { classes = append(classes, a.Class) }})
		r.Apply(&cfg)
		start := time.Now()
		err := deleteMessage(t.Context(), sqs.NewFromConfig(cfg))
		want := []awsretry.Class{awsretry.Throttled, awsretry.Throttled, awsretry.Success}
		if took := time.Since(start); err != nil || took != 3*time.Second || !slices.Equal(classes, want) {
			t.Errorf("%v after %v, want 3s: %v", classes, took, err)
		}
		for name, state := range r.Partitions() {
			if state.Limited {
				t.Errorf("%q is limited: %+v", name, state)
			}
		}
	})
}

func names(r *Retryer) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range r.Partitions() {
			if !yield(name) {
				return
			}
		}
	}
}
