package webhook

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestCheckAddr(t *testing.T) {
	t.Parallel()
	for kind, addrs := range map[string]string{
		"": `8.8.8.8 172.15.255.255 172.32.0.0 100.63.255.255 100.128.0.0 198.17.255.255 198.20.0.0 223.255.255.255
			2606:4700:4700::1111 2001:200::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8`,
		"unspecified":       `0.0.0.0 0.1.2.3 ::`,
		"private":           `10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fd12:3456::1 64:ff9b::10.0.0.1`,
		"loopback":          `127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1`,
		"link-local":        `169.254.1.1 fe80::1 fe80::1%eth0`,
		"carrier-grade NAT": `100.64.0.1 100.127.255.255`,
		"cloud metadata": `169.254.169.254 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254
			::ffff:169.254.169.254`,
		"documentation": `192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1`,
		"benchmarking":  `198.18.0.1 198.19.255.255 2001:2::1`,
		"multicast":     `224.0.0.1 239.255.255.255 ff02::1`,
		"6to4":          `192.88.99.1 2002:a00:1::1`, // of 10.0.0.1
		"Teredo":        `2001:0:808:808::f5ff:fffe`, // 10.0.0.1, obfuscated
		"reserved": `192.0.0.8 240.0.0.1 255.255.255.255 fec0::1 100::1 4000::1 2001:10::1
			::7f00:1 ::ffff:0:127.0.0.1 64:ff9b:1::8.8.8.8`, // IPv4-compatible, IPv4-translated, NAT64 of a local network
	} {
		for _, addr := range strings.Fields(addrs) {
			err := CheckAddr(netip.MustParseAddr(addr))
			var refused *AddressError
			if kind == "" && err != nil || kind != "" && (!errors.As(err, &refused) || refused.Kind != kind) {
				t.Errorf("%s: %v, want %q", addr, err, kind)
			}
		}
	}
	if CheckAddr(netip.Addr{}) == nil {
		t.Error("no address is public")
	}
}

func TestAllowedAddresses(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{{}, netip.MustParsePrefix("fe80::/64"), netip.MustParsePrefix("10.1.0.0/16")}
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "fe80::1%eth0": true, "10.2.0.0": false,
	} {
		if err := CheckAddr(netip.MustParseAddr(addr), allow...); (err == nil) != want {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestRetryStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		301: false, 404: false, 408: true, 425: true, 429: true, 500: true, 599: true, 600: false,
	} {
		if got := RetryStatus(status); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"} {
		addr := netip.MustParseAddr(text)
		if err := CheckAddr(addr, Loopback()...); err != nil || CheckAddr(addr) == nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
