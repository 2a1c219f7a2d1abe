// Package testreply is for tests of code that reads servers' replies. It makes replies from bytes, and a
// connection that gives them in turn. Echo is a server that repeats a secret in its replies. The library does not
// import the package.
//
// A Conn has no goroutines, and belongs to one pipe. Those of an Echo end with its test.
package testreply
