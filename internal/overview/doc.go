// Package overview is the model under the faces that show the locks of a cluster: a terminal, a page, a
// log of changes. It has no face: no markup, no escape sequences, no colours, but texts that are
// safe to print and levels with names.
//
// # The idea
//
// A Model looks at the locks through a Source, which *redlock.Client is. Whatever the number of its
// watchers, one listing (a pass) is under way at most, and passes take a quarter of the time at most. The
// rows that watchers see are looked at again each second in between. Without a watcher the
// Model asks nothing.
//
// A Watcher has a View: a filter and an order. It receives Snapshots, which nobody changes: the latest
// one wins, so a slow watcher delays no other. Watchers of equal views receive the same Snapshot.
//
// # Without a quorum
//
// A pass that fails replaces nothing: the rows of the last whole pass stay, with their age, and what the
// masters that answer say of the visible ones. The next pass that succeeds replaces them.
//
// # Goroutines and locks
//
// Start starts the Model's goroutine, which owns all that is known of locks and masters. While it runs it starts
// goroutines for a pass and for questions about rows. The function that Start returns ends it, and returns when all have ended.
//
// Model.mu protects the list of watchers and their views; Watcher has no lock of its own. Nothing is
// called, and no channel is awaited, under mu.
//
// # The life of a Snapshot
//
// The Model makes it when a pass or a look has ended or a view has changed, puts it into its watchers' channels in the
// place of one that was not received, and keeps no part of it that it changes later.
package overview
