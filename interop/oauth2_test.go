package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// With oauth2 below a Transport, every attempt asks for a token. With oauth2
// over it, all attempts send the first one.
func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(http.RoundTripper, oauth2.TokenSource) http.RoundTripper
		want  []string
	}{
		{"over", func(b http.RoundTripper, s oauth2.TokenSource) http.RoundTripper {
			return &oauth2.Transport{Source: s, Base: retrying(b)}
		}, []string{"Bearer token-1", "Bearer token-1", "Bearer token-1"}},
		{"below", func(b http.RoundTripper, s oauth2.TokenSource) http.RoundTripper {
			return retrying(&oauth2.Transport{Source: s, Base: b})
		}, []string{"Bearer token-1", "Bearer token-2", "Bearer token-3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := serveScript(t, respond(503, "{}"), respond(503, "{}"), respond(200, "{}"))
			rt := tt.build(srv.Base, &shortLived{})
			resp, err := rt.RoundTrip(srv.Request(t, http.MethodPost, streamOf("a stream")))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			var tokens []string
			for _, r := range srv.requests() {
				tokens = append(tokens, r.auth)
				if r.body != "a stream" {
					t.Errorf("an attempt sent %q", r.body)
				}
			}
			if !slices.Equal(tokens, tt.want) {
				t.Errorf("the attempts sent the tokens %q, want %q", tokens, tt.want)
			}
		})
	}
}

// shortLived returns a new token every time, as a source does whose tokens
// expire during a delay.
type shortLived struct{ tokens atomic.Int32 }

func (s *shortLived) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: fmt.Sprint("token-", s.tokens.Add(1))}, nil
}

// A token endpoint that is busy is asked again, and one that refuses is not.
// The request that needs the token keeps its body.
func TestTokenEndpoint(t *testing.T) {
	// A refusal is an error of oauth2's own type.
	policy := func(a *awsretry.Attempt) awsretry.Class {
		var refused *oauth2.RetrieveError
		if errors.As(a.Err, &refused) && refused.Response.StatusCode < 500 {
			return awsretry.Permanent
		}
		return awsretry.DefaultPolicy(a)
	}
	granted := respond(200, `{"access_token": "granted", "token_type": "Bearer", "expires_in": 3600}`)
	for _, tt := range []struct {
		name          string
		endpoint      []http.HandlerFunc
		asked, served int
		ok            bool
	}{
		{"busy", []http.HandlerFunc{respond(503, "{}"), hangUp, granted}, 3, 1, true},
		{"refuses", []http.HandlerFunc{respond(401, `{"error": "invalid_client"}`)}, 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			endpoint := serveScript(t, tt.endpoint...)
			srv := serveScript(t, respond(200, "{}"))
			// The endpoint has a Transport of its own. The one of the request would
			// retry each of its failures again.
			ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: retrying(endpoint.Base)})
			config := clientcredentials.Config{
				ClientID: "id", ClientSecret: "secret", TokenURL: endpoint.URL, AuthStyle: oauth2.AuthStyleInHeader,
			}
			tr := retrying(&oauth2.Transport{Source: config.TokenSource(ctx), Base: srv.Base})
			tr.Policy = policy

			body := httpfake.NewBody(strings.NewReader("kept"))
			resp, err := tr.RoundTrip(srv.Request(t, http.MethodPost, body))
			if err == nil {
				resp.Body.Close()
			}
			if asked := len(endpoint.requests()); (err == nil) != tt.ok || asked != tt.asked {
				t.Errorf("%v; the endpoint was asked %d times, want %d", err, asked, tt.asked)
			}
			if served := len(srv.requests()); served != tt.served {
				t.Errorf("the service saw %d requests, want %d", served, tt.served)
			}
			for _, r := range srv.requests() {
				if r.body != "kept" || r.auth != "Bearer granted" {
					t.Errorf("the service received %q with %q", r.body, r.auth)
				}
			}
			wantClosedOnce(t, body)
		})
	}
}
