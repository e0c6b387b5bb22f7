package rows

import (
	"context"
	"net/http"

	vault "github.com/hashicorp/vault/api"

	"example.com/awsretry"
)

var vaultRow = row{
	client: "github.com/hashicorp/vault/api",
	how: "`config := api.DefaultConfig()`, `config.MaxRetries = 0`, `config.HttpClient.Transport = t`; " +
		"`Policy: also(412, 505, 506, 507, 508, 510, 511)`; 412 is for a standby that lags behind",
	transport: func(tr *awsretry.Transport) { tr.Policy = also(412, 505, 506, 507, 508, 510, 511) },
	keep:      3,
	calls: []call{
		{name: "read", server: vaultServer, do: onVault(func(ctx context.Context, l *vault.Logical) error {
			secret, err := l.ReadWithContext(ctx, "secret/data/x")
			return unless(secret != nil, err)
		})},
		{name: "write", server: vaultServer, do: onVault(func(ctx context.Context, l *vault.Logical) error {
			secret, err := l.WriteWithContext(ctx, "secret/data/x", map[string]any{"a": "b"})
			return unless(secret != nil, err)
		})},
	},
	scenes: []scene{{name: "a redirect", times: 1, fault: status(307, "Location", "/v1/secret/data/x")}},
}

func vaultServer() http.HandlerFunc { return respond(200, asJSON, `{"data":{"a":"b"}}`) }

func onVault(do func(context.Context, *vault.Logical) error) func(context.Context, setting) error {
	return func(ctx context.Context, s setting) error {
		config := vault.DefaultConfig()
		config.Address, config.HttpClient.Transport = s.url, s.Transport
		if s.over {
			config.MaxRetries = 0
		}
		client, err := vault.NewClient(config)
		if err != nil {
			return err
		}
		client.SetToken("token")
		return do(ctx, client.Logical())
	}
}
