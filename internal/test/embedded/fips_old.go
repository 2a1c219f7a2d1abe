//go:build !go1.26

package embedded

// Exempt runs f.
func Exempt(f func()) { f() }
