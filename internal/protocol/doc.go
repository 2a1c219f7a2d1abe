// Package protocol is what clients and servers say to each other: the names of keys and
// the Lua scripts. docs/protocol.md describes it for people. Clients of several versions
// meet at one server, so a change here is a change of that page.
//
// It has no goroutines and no locks; all its values are made once, and only read.
package protocol
