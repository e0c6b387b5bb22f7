package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"example.com/awsretry"
	"github.com/google/go-github/v75/github"
)

// githubPolicy knows that GitHub throttles with 403 as well as 429. Its
// secondary rate limits say when to come back.
func githubPolicy(a *awsretry.Attempt) awsretry.Class {
	if r := a.Response; r != nil && r.StatusCode == http.StatusForbidden && r.Header.Get("Retry-After") != "" {
		return awsretry.Throttled
	}
	return awsretry.DefaultPolicy(a)
}

// githubReset is a Base that translates GitHub's X-RateLimit-Reset to
// Retry-After. So the delay is long enough, or the response is returned because
// it would be longer than MaxRetryAfter.
type githubReset struct{ http.RoundTripper }

func (b githubReset) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil && resp.Header.Get("X-RateLimit-Remaining") == "0" && resp.Header.Get("Retry-After") == "" {
		if reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			resp.Header.Set("Retry-After", time.Unix(reset, 0).UTC().Format(http.TimeFormat))
		}
	}
	return resp, err
}

func githubCases() []clientCase {
	sdk := func(client *http.Client, server string) (*github.Client, error) {
		gh, err := github.NewClient(client).WithEnterpriseURLs(server, server)
		if err == nil {
			gh.DisableRateLimitCheck = true // the check refuses requests that are not sent yet
		}
		return gh, err
	}
	getRepository := func(client *http.Client, server string) error {
		gh, err := sdk(client, server)
		if err != nil {
			return err
		}
		repo, _, err := gh.WithAuthToken("token").Repositories.Get(context.Background(), "octo", "hello")
		if err == nil && repo.GetFullName() != "octo/hello" {
			err = errors.New("not the repository: " + repo.GetFullName())
		}
		return err
	}
	createIssue := func(client *http.Client, server string) error {
		gh, err := sdk(client, server)
		if err != nil {
			return err
		}
		issue, _, err := gh.Issues.Create(context.Background(), "octo", "hello",
			&github.IssueRequest{Title: github.Ptr("once")})
		if err == nil && issue.GetNumber() != 7 {
			err = errors.New("not the issue: " + strconv.Itoa(issue.GetNumber()))
		}
		return err
	}
	repository := respond(200, `{"full_name": "octo/hello"}`)
	exceeded := func(reset time.Time) http.HandlerFunc {
		return respond(403, `{"message": "API rate limit exceeded"}`,
			"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(reset.Unix()))
	}
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a synctest bubble begins
	soon := midnight.Add(time.Second)
	untilSoon := func(w http.ResponseWriter, r *http.Request) {
		if time.Now().Before(soon) {
			exceeded(soon)(w, r)
			return
		}
		repository(w, r)
	}
	const secondary = `{"message": "You have exceeded a secondary rate limit.", "documentation_url": ` +
		`"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	onReset := func(b http.RoundTripper) http.RoundTripper { return githubReset{b} }
	return []clientCase{{
		name: "secondary rate limit", policy: githubPolicy, call: createIssue, sent: 2, atLeast: time.Second,
		service: []http.HandlerFunc{respond(403, secondary, "Retry-After", "1"), respond(201, `{"number": 7}`)},
	}, {
		name: "primary rate limit that ends soon", policy: githubPolicy, base: onReset, call: getRepository, sent: 2,
		service: []http.HandlerFunc{untilSoon},
	}, {
		name: "primary rate limit that ends in an hour", policy: githubPolicy, base: onReset, call: getRepository, sent: 1,
		service: []http.HandlerFunc{exceeded(midnight.Add(time.Hour))},
		failed: isError(func(e *github.RateLimitError) bool {
			return time.Until(e.Rate.Reset.Time) > 50*time.Minute
		}),
	}, {
		name: "primary rate limit, without the Base that knows its end", policy: githubPolicy, call: getRepository, sent: 1,
		service: []http.HandlerFunc{exceeded(soon)},
		failed: isError(
			func(e *github.RateLimitError) bool { return e.Rate.Reset.Equal(github.Timestamp{Time: soon}) },
		),
	}, {
		name: "no permission", policy: githubPolicy, call: getRepository, sent: 1,
		service: []http.HandlerFunc{
			respond(403, `{"message": "Resource not accessible by integration"}`, "X-RateLimit-Remaining", "4999"),
		},
		failed: isError(func(e *github.ErrorResponse) bool {
			return e.Message == "Resource not accessible by integration"
		}),
	}, {
		name: "an issue that may exist already", policy: awsretry.IdempotentOnly(githubPolicy), call: createIssue, sent: 1,
		service: []http.HandlerFunc{respond(502, `{"message": "Server Error"}`)},
		failed: isError(func(e *github.ErrorResponse) bool {
			return e.Response.StatusCode == 502 && e.Message == "Server Error"
		}),
	}}
}
