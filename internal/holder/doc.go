// Package holder is what a client tells and learns about those who hold locks: holders announce themselves, observers follow
// them, and holders are told that others want their locks. Nothing here gives a right or takes one: docs/safety.md (Observers,
// Holders that are told) has the argument.
//
// # Observers
//
// A message is a hint that leads to a look: one script at each node that may vote, about up to a hundred locks
// (look.go). What a quorum shows is what observers get (observed.go). A Board looks when something was said, where keys that it
// saw have ended, and else once a second, at all of its locks in turn.
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
