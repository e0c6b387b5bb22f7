package webhook

import (
	"errors"
	"net/netip"
	"testing"
)

func TestCheckAddr(t *testing.T) {
	t.Parallel()
	internal := netip.MustParsePrefix("10.1.0.0/16")
	local := netip.MustParsePrefix("fe80::/64")
	for _, c := range []struct {
		addr  string
		allow []netip.Prefix
		kind  string // "": public, or allowed
	}{
		{"8.8.8.8", nil, ""},
		{"1.1.1.1", nil, ""},
		{"172.15.255.255", nil, ""},
		{"172.32.0.0", nil, ""},
		{"100.63.255.255", nil, ""},
		{"100.128.0.0", nil, ""},
		{"198.17.255.255", nil, ""},
		{"198.20.0.0", nil, ""},
		{"223.255.255.255", nil, ""},
		{"2606:4700:4700::1111", nil, ""},
		{"2001:4860:4860::8888", nil, ""},
		{"2001:200::1", nil, ""},

		{"0.0.0.0", nil, "unspecified"},
		{"0.1.2.3", nil, "unspecified"},
		{"10.0.0.1", nil, "private"},
		{"172.16.0.1", nil, "private"},
		{"172.31.255.255", nil, "private"},
		{"192.168.1.1", nil, "private"},
		{"127.0.0.1", nil, "loopback"},
		{"127.255.255.255", nil, "loopback"},
		{"169.254.1.1", nil, "link-local"},
		{"100.64.0.1", nil, "carrier-grade NAT"},
		{"100.127.255.255", nil, "carrier-grade NAT"},
		{"169.254.169.254", nil, "cloud metadata"},
		{"168.63.129.16", nil, "cloud metadata"},
		{"100.100.100.200", nil, "cloud metadata"},
		{"192.0.0.192", nil, "cloud metadata"},
		{"192.0.0.8", nil, "reserved"},
		{"192.0.2.1", nil, "documentation"},
		{"198.51.100.1", nil, "documentation"},
		{"203.0.113.1", nil, "documentation"},
		{"192.88.99.1", nil, "6to4"},
		{"198.18.0.1", nil, "benchmarking"},
		{"198.19.255.255", nil, "benchmarking"},
		{"224.0.0.1", nil, "multicast"},
		{"239.255.255.255", nil, "multicast"},
		{"240.0.0.1", nil, "reserved"},
		{"255.255.255.255", nil, "reserved"},

		{"::", nil, "unspecified"},
		{"::1", nil, "loopback"},
		{"::7f00:1", nil, "reserved"}, // IPv4-compatible
		{"fc00::1", nil, "private"},
		{"fd12:3456::1", nil, "private"},
		{"fd00:ec2::254", nil, "cloud metadata"},
		{"fe80::1", nil, "link-local"},
		{"fe80::1%eth0", nil, "link-local"},
		{"fec0::1", nil, "reserved"},
		{"ff02::1", nil, "multicast"},
		{"100::1", nil, "reserved"},
		{"4000::1", nil, "reserved"},
		{"2001:db8::1", nil, "documentation"},
		{"3fff::1", nil, "documentation"},
		{"2001:2::1", nil, "benchmarking"},
		{"2001:10::1", nil, "reserved"},
		{"2001:0:808:808::f5ff:fffe", nil, "Teredo"}, // 10.0.0.1, obfuscated
		{"2002:a00:1::1", nil, "6to4"},               // 10.0.0.1
		{"::ffff:127.0.0.1", nil, "loopback"},
		{"::ffff:169.254.169.254", nil, "cloud metadata"},
		{"::ffff:8.8.8.8", nil, ""},
		{"::ffff:0:127.0.0.1", nil, "reserved"}, // IPv4-translated
		{"64:ff9b::10.0.0.1", nil, "private"},
		{"64:ff9b::127.0.0.1", nil, "loopback"},
		{"64:ff9b::8.8.8.8", nil, ""},
		{"64:ff9b:1::8.8.8.8", nil, "reserved"}, // NAT64 of a local network

		{"10.1.2.3", []netip.Prefix{local, internal}, ""},
		{"::ffff:10.1.2.3", []netip.Prefix{internal}, ""},
		{"64:ff9b::10.1.2.3", []netip.Prefix{internal}, ""},
		{"10.2.0.0", []netip.Prefix{internal}, "private"},
		{"10.1.2.3", []netip.Prefix{{}}, "private"},
		{"fe80::1%eth0", []netip.Prefix{local}, ""},
	} {
		err := CheckAddr(netip.MustParseAddr(c.addr), c.allow...)
		var refused *AddressError
		switch {
		case c.kind == "" && err != nil:
			t.Errorf("%s, allowed %v: %v", c.addr, c.allow, err)
		case c.kind != "" && (!errors.As(err, &refused) || refused.Kind != c.kind):
			t.Errorf("%s, allowed %v: %v; want %s", c.addr, c.allow, err, c.kind)
		}
	}
	if CheckAddr(netip.Addr{}) == nil {
		t.Error("no address is allowed")
	}
	const want = "webhook: 10.0.0.1 (private) is not a public address"
	if err := CheckAddr(netip.MustParseAddr("::ffff:10.0.0.1")); err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
