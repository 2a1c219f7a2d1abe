// Package protocol has the names of the keys, the Lua scripts, and for each script its arguments
// and what its replies say. That is the protocol between clients and servers. docs/protocol.md
// describes it for people. Clients of several versions meet at one server, so a change here is a
// change of that page.
//
// A call is a struct, or a method of the keys that it is about; its result is the command's
// arguments. A reply about one lock is read by a function named after the call, into a Reply whose
// Kind says what the server did. What that means for a vote is internal/lock's affair.
//
// A script is a file, which lists its parts by marks: compose puts them together. A part says which variables it needs of
// the text ahead of it. The tests compare that, the list of parts in docs/protocol.md, and what is used.
//
// It has no goroutines and no locks; all its values are made once, and only read.
package protocol
