// Package contract holds the tests of awsretry.Transport that need nothing but
// its exported names: what every caller may rely on, whatever the code below
// looks like. Each file is one subject.
package contract
