// Package protocol has the names of the keys and the Lua scripts, which are the protocol
// between clients and servers. docs/protocol.md describes it for people. Clients of several
// versions meet at one server, so a change here is a change of that page.
//
// A script is a file, which lists its parts by marks: compose puts them together. A part says which variables it needs of
// the text ahead of it. The tests compare that, the list of parts in docs/protocol.md, and what is used.
//
// It has no goroutines and no locks; all its values are made once, and only read.
package protocol
