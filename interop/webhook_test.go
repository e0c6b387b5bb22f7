package interop

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/deliveryqueue/webhook"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
)

const (
	newSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oldSecret   = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// startReceiver starts a receiver that verifies webhooks with the library and
// the secret that its path names: of standardwebhooks or of svix.
func startReceiver(t *testing.T) (addr string) {
	t.Helper()
	return kit.StartNode(t, `
		const secrets = process.argv.slice(1);
		require('http').createServer((req, res) => {
			const [, library, secret] = req.url.split('/');
			const {Webhook} = require(library);
			const chunks = [];
			req.on('data', chunk => chunks.push(chunk)).on('end', () => {
				try {
					new Webhook(secrets[secret]).verify(Buffer.concat(chunks), req.headers);
					res.end(req.headers['webhook-id']);
				} catch (error) {
					res.writeHead(400).end(error.message);
				}
			});
		}).listen(0, '127.0.0.1', function() { console.log(this.address().port); });`,
		newSecret, oldSecret, otherSecret)
}

// The libraries of Standard Webhooks and of Svix verify what a Signer signs, if the
// body is UTF-8: they decode it.
func TestSignaturesAreVerified(t *testing.T) {
	t.Parallel()
	addr := startReceiver(t)
	signer := kit.Must[*webhook.Signer](t)(webhook.NewSigner(newSecret, oldSecret))
	base := webhook.PublicOnly(netip.MustParsePrefix("127.0.0.1/32"))
	defer base.CloseIdleConnections()
	find := func(*http.Request) (*webhook.Signer, error) { return signer, nil }
	for hook, rt := range map[string]http.RoundTripper{
		"Base":    &delivery.Transport{Base: webhook.Sign(base, find)},
		"Prepare": &awsretry.Transport{Base: base, Prepare: signer.Prepare},
	} {
		for _, library := range []string{"standardwebhooks", "svix"} {
			const body, none = `{"text": "Grüße, ` + "\u2028" + `"}`, "400 No matching signature found"
			for _, tt := range []struct{ secret, body, want string }{
				{"0", body, "200 order-7"}, {"1", body, "200 order-7"}, {"2", body, none}, {"0", "\x1f\x8b of gzip", none},
			} {
				url := "http://" + addr + "/" + library + "/" + tt.secret
				req := kit.NewRequest(t, t.Context(), http.MethodPost, url, strings.NewReader(tt.body))
				req.Header.Set("Idempotency-Key", "order-7")
				resp := kit.Must[*http.Response](t)(rt.RoundTrip(req))
				text := httpfake.ReadAll(t, resp)
				if got := resp.Status[:4] + text; got != tt.want {
					t.Errorf("%s, %s, secret %s, body %q: %q, want %q", hook, library, tt.secret, tt.body, got, tt.want)
				}
			}
		}
	}
}
