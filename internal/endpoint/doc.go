// Package endpoint reads the URLs of Redis masters and connects to them: one way for the
// library and for the command line tool.
//
// Parse makes an Endpoint, a plain value. Its Connector makes connections, which belong to
// their caller; so does a Connector over any other way to a server. A conn encodes
// commands, and its decoder makes the values of replies that redigo makes, within bounds. A conn's lock protects why its
// socket is closed, and nothing is locked under it. The package has no other state, and no goroutines.
package endpoint
