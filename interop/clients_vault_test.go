package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry"
	"github.com/hashicorp/vault/api"
)

// vaultPolicy knows the 412 of a Vault node that does not have the client's
// last writes yet.
func vaultPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusPreconditionFailed {
		return awsretry.Transient
	}
	return awsretry.DefaultPolicy(a)
}

func vaultCases() []clientCase {
	sdk := func(client *http.Client, server string) (*api.Client, error) {
		vault, err := api.NewClient(&api.Config{Address: server, HttpClient: client, MaxRetries: 0})
		if err == nil {
			vault.SetToken("token")
		}
		return vault, err
	}
	read := func(client *http.Client, server string) error {
		vault, err := sdk(client, server)
		if err != nil {
			return err
		}
		secret, err := vault.Logical().ReadWithContext(context.Background(), "kv/database")
		if err == nil && (secret == nil || secret.Data["password"] != "hunter2") {
			err = errors.New("not the secret")
		}
		return err
	}
	write := func(client *http.Client, server string) error {
		vault, err := sdk(client, server)
		if err != nil {
			return err
		}
		_, err = vault.Logical().WriteWithContext(context.Background(), "kv/database",
			map[string]any{"password": "hunter2"})
		return err
	}
	fault := func(text string) string { return fmt.Sprintf(`{"errors": [%q]}`, text) }
	behind := respond(412, fault("required index state not present"))
	return []clientCase{{
		name: "rate limit quota", policy: vaultPolicy, call: write, sent: 2, atLeast: time.Second,
		service: []http.HandlerFunc{
			respond(429, fault("rate limit quota exceeded"), "Retry-After", "1"),
			respond(204, ""),
		},
	}, {
		name: "node that is behind", policy: vaultPolicy, call: read, sent: 3,
		service: []http.HandlerFunc{behind, behind, respond(200, `{"data": {"password": "hunter2"}}`)},
	}, {
		name: "no permission", policy: vaultPolicy, call: write, sent: 1,
		service: []http.HandlerFunc{respond(403, fault("permission denied"))},
		failed: isError(func(e *api.ResponseError) bool {
			return e.StatusCode == 403 && len(e.Errors) == 1
		}),
	}}
}
