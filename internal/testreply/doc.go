// Package testreply is for fuzz tests of what reads servers' replies: replies that grow from
// bytes, and a connection that gives them in turn. The library does not import it.
//
// It has no goroutines. A Conn belongs to one pipe.
package testreply
