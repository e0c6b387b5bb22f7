// Package contract holds the tests of awsretry.Transport that need nothing but
// its exported names: what every caller may rely on. Each file has one subject.
package contract
