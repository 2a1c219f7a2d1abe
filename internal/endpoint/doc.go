// Package endpoint reads the URLs of Redis masters and connects to them: one way for the
// library and for the command line tool.
//
// Parse makes an Endpoint, a plain value. Its Connector makes connections, which belong to
// their caller; so does a Connector over any other way to a server. A conn is redigo's but for the
// writing of commands. The package has no state, no goroutines and no locks.
package endpoint
