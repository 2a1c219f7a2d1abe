// Package endpoint reads the URLs of Redis masters and connects to them: one way for the
// library and for the command line tool.
//
// Parse makes an Endpoint, a plain value; Dial makes a connection, which belongs to its
// caller. The package has no state, no goroutines and no locks.
package endpoint
