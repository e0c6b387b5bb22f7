package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
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
	for _, list := range special {
		if slices.ContainsFunc(list.prefixes, func(p netip.Prefix) bool { return p.Contains(bare) }) {
			return &AddressError{Addr: bare, Kind: list.kind}
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

// special has the prefixes of addresses that are not public. The first one that
// contains an address determines its kind. The prefixes are from the IANA IPv4 and IPv6
// Special-Purpose Address Registries, without the few public ones in them.
var special = []struct {
	kind     string
	prefixes []netip.Prefix
}{
	{"cloud metadata", prefixes("169.254.169.254/32 168.63.129.16/32 100.100.100.200/32 192.0.0.192/32 fd00:ec2::254/128")}, // the second in a public range of Azure
	{"unspecified", prefixes("0.0.0.0/8 ::/128")},
	{"private", prefixes("10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7")},
	{"loopback", prefixes("127.0.0.0/8 ::1/128")},
	{"link-local", prefixes("169.254.0.0/16 fe80::/10")},
	{"multicast", prefixes("224.0.0.0/4 ff00::/8")},
	{"carrier-grade NAT", prefixes("100.64.0.0/10")},
	{"benchmarking", prefixes("198.18.0.0/15 2001:2::/48")},
	{"documentation", prefixes("192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20")},
	{"6to4", prefixes("192.88.99.0/24 2002::/16")},
	{"Teredo", prefixes("2001::/32")},
	{"reserved", prefixes("192.0.0.0/24 240.0.0.0/4 2001::/23")}, // 255.255.255.255 too
}

func prefixes(text string) (all []netip.Prefix) {
	for prefix := range strings.FieldsSeq(text) {
		all = append(all, netip.MustParsePrefix(prefix))
	}
	return all
}
