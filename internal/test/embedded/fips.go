//go:build go1.26

package embedded

import "crypto/fips140"

// Exempt runs f, with the goroutines that it starts, beside the rules of GODEBUG=fips140=only: an embedded server runs
// no script without crypto/sha1. Before Go 1.26 such a server does not work under them.
func Exempt(f func()) { fips140.WithoutEnforcement(f) }
