// Package protocol has the names of the keys and the Lua scripts, which are the protocol
// between clients and servers. docs/protocol.md describes it for people. Clients of several
// versions meet at one server, so a change here is a change of that page.
//
// It has no goroutines and no locks; all its values are made once, and only read.
package protocol
