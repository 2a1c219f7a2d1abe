// Package testreply is for fuzz tests of code that reads servers' replies: it makes replies
// from bytes, and a connection that gives them in turn. The library does not import it.
//
// It has no goroutines. A Conn belongs to one pipe.
package testreply
