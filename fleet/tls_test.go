package fleet_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// Dial speaks TLS if it is asked to, and does not trust a certificate of an
// unknown authority.
func TestTLS(t *testing.T) {
	certificate, key := selfSigned(t)
	addr := storetest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	store := storetest.Start(t, "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", certificate, "--tls-key-file", key)
	store.Do(append([]string{"ACL", "SETUSER", "fleet", "on", ">secret", "~awsretry:*"}, rights...)...)
	text, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(text)
	for name, roots := range map[string]*x509.CertPool{"known": known, "unknown": nil} {
		t.Run(name, func(t *testing.T) {
			client := fleet.Dial(valkey.ClientOption{
				InitAddress: []string{addr}, ForceSingleClient: true, Username: "fleet", Password: "secret",
				TLSConfig: &tls.Config{ServerName: "store.example", RootCAs: roots},
			})
			defer client.Close()
			renewals := &watched{Client: client}
			shared := fleet.New(renewals, fleet.Config{})
			defer shared.Close()
			tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
			send(t, tr)
			refused := func() bool { return renewals.failedWith("certificate") }
			trusts := roots != nil
			eventually(t, "a lease or a refusal", func() bool { return trusts && leased(tr) || !trusts && refused() })
			if refused() == trusts || renewals.succeeded.Load() > 0 != trusts {
				t.Errorf("%d renewals succeeded; the errors are %q", renewals.succeeded.Load(), renewals.failed.all())
			}
		})
	}
}

// selfSigned returns the files of a certificate of store.example and of its key.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"store.example"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("certificate.pem", "CERTIFICATE", public), write("key.pem", "PRIVATE KEY", secret)
}
