// Package holder is what a client announces and learns about holders of locks. Holders announce themselves, observers
// follow them, and a holder learns that others want its lock. Nothing here gives a right or takes one: docs/safety.md
// (Observers, Holders that are told) has the argument.
//
// # Observers
//
// A message is a hint that leads to a look: one script at each node that may vote, about up to a hundred locks
// (look.go). Observers get what a quorum shows (observed.go). A Board looks when a message came, when keys that it saw
// have ended, and else once a second, at all of its locks in turn.
//
//	holder's client                  nodes                        observer's client
//	grant, verdict  ── PUBLISH ──▶   wake:=<key>   ── message ──▶  look
//	                                 keys          ◀── observe.lua
//	                ◀── message ──   wake:?<key>   ◀── PUBLISH ──  a quorum has an owner that nobody announced
//	                ── PUBLISH ──▶   wake:<client> ── message ──▶  its token is known
//
// # Goroutines
//
// The first Observe starts one goroutine, which makes all looks; it ends with the client's life. Messages arrive in the
// goroutines of the subscriptions.
//
// # Locks
//
// Board.mu comes after the leases' locks, and ahead of the nodes' and the pipes'. The lock of Wanted is innermost.
package holder
