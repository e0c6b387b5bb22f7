package webhook

import (
	"fmt"
	"net"
	"net/netip"
)

// An AddressError is the error of a connection to an address that is not
// public.
type AddressError struct {
	Host string     // the host and port that have the address; "" from CheckAddr
	Addr netip.Addr // without a zone; an embedded IPv4 address is on its own
	Kind string     // the kind of address, such as "private", "loopback" or "cloud metadata"
}

func (e *AddressError) Error() string {
	host := ""
	if e.Host != "" {
		host = e.Host + ": "
	}
	return fmt.Sprintf("webhook: %s%v (%s) is not a public address", host, e.Addr, e.Kind)
}

// Unwrap returns a *net.AddrError, which the packages of this repository treat
// as a permanent failure.
func (e *AddressError) Unwrap() error {
	return &net.AddrError{Err: e.Kind + " address", Addr: e.Addr.String()}
}

// CheckAddr returns an [*AddressError] if addr is neither public nor in allow.
// A program may refuse a customer's URL with it before a delivery is stored.
//
// An address is public if the special-purpose registries of IANA (RFC 6890) do not
// list it as special. So these are refused: private, loopback, link-local,
// unspecified, multicast, carrier-grade NAT, benchmarking, documentation and
// reserved addresses, and all of 6to4 and Teredo. The addresses at which clouds
// serve metadata and credentials are refused, too. An IPv4 address in an IPv6
// address (IPv4-mapped, or NAT64 with the prefix 64:ff9b::/96) is treated as the
// IPv4 address. NAT64 with a network-specific prefix cannot be recognized.
func CheckAddr(addr netip.Addr, allow ...netip.Prefix) error {
	bare := addr.WithZone("").Unmap() // a prefix contains neither zones nor mapped addresses
	for _, prefix := range allow {
		if prefix.Contains(bare) {
			return nil
		}
	}
	if nat64.Contains(bare) {
		embedded := bare.As16()
		return CheckAddr(netip.AddrFrom4([4]byte(embedded[12:])), allow...)
	}
	for _, special := range special {
		if special.prefix.Contains(bare) {
			return &AddressError{Addr: bare, Kind: special.kind}
		}
	}
	if !bare.Is4() && !globalUnicast.Contains(bare) {
		return &AddressError{Addr: bare, Kind: "reserved"}
	}
	return nil
}

var (
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	globalUnicast = netip.MustParsePrefix("2000::/3")     // all that IANA has assigned for it
)

// special has the prefixes of addresses that are not public. The first prefix that
// contains an address determines its kind. The prefixes are from the IANA IPv4 and
// IPv6 Special-Purpose Address Registries, without the few public ones in them.
var special = []struct {
	prefix netip.Prefix
	kind   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "cloud metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"}, // Azure's, in a public range
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"},
	{netip.MustParsePrefix("192.0.0.192/32"), "cloud metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "cloud metadata"},

	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"}, // 255.255.255.255 too

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"},
	{netip.MustParsePrefix("2001:2::/48"), "benchmarking"},
	{netip.MustParsePrefix("2001::/23"), "reserved"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}
