//go:build !full

package main

// serveForeign does nothing: this program was built without the peers that have
// servers of their own.
func serveForeign() bool { return false }
