// Package overview is the model under the faces that show the locks of a cluster: a terminal, a
// page, a log of changes, and JSON. It has no markup, no escape sequences and no colours, but texts
// that are safe to print, and levels with names.
//
// # The idea
//
// A Model looks at the locks through a Source, which *redlock.Client is. However many watchers it
// has, it runs one listing (a pass) at a time, and passes take at most a quarter of the time. In
// between, it looks each second at the rows that watchers see. Without a watcher it asks nothing.
//
// A Watcher has a View: a filter and an order. It receives immutable Snapshots. The latest wins, so
// a slow watcher delays no other. Watchers of equal views receive the same Snapshot.
//
// # Without a quorum
//
// A failed pass replaces nothing: the rows of the last whole pass stay, with their age, and with
// what the masters that answer say of the visible ones. The next whole pass replaces them.
//
// # Goroutines and locks
//
// Start starts the Model's goroutine, which owns what is known of locks and masters, and starts
// others for a pass and for questions about rows. The stop function waits until all have ended.
//
// Model.mu protects the watchers and their views; Watcher has no lock. The Model calls nothing and
// awaits no channel under mu.
//
// # The life of a Snapshot
//
// The Model makes one when a pass or a look has ended or a view has changed. It replaces the one
// that a watcher has not received, and shares no part that the Model changes later.
package overview
