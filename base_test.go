package awsretry

import (
	"net/http"
	"testing"
)

// The default Base asks silent HTTP/2 connections for a sign of life.
func TestDefaultBaseChecksConnections(t *testing.T) {
	base := (&Transport{}).base().(*http.Transport)
	if c := base.HTTP2; c == nil || c.SendPingTimeout != sendPingTimeout || c.PingTimeout != pingTimeout || !base.ForceAttemptHTTP2 {
		t.Errorf("the default Base is %+v", base)
	}
	if other := (&Transport{}).base(); other != http.RoundTripper(base) {
		t.Error("it is not shared")
	}
}
