// Package simredis is Redis servers and the network to them, for simulations in
// the virtual time of a testing/synctest bubble: as fast as it gets, with the
// faults of both at the simulation's command. The scripts that it runs are the
// real ones, in a real Lua; the commands beneath them are few, and are compared
// with another implementation's by a test.
//
// What happens depends on the instants at which it does, and on nothing else:
// fates are the caller's to decide, for each message, from its place on its link.
package simredis

import (
	"sync"
	"time"
)

// World is servers and the connections to them. Everything that happens, happens
// under one lock.
type World struct {
	mu      sync.Mutex // protects all that follows, and all of the servers and connections
	origin  time.Time
	slept   time.Duration
	scripts *scripts
	log     func(at time.Duration, server int, who string, args []string, reply any)
}

// NewWorld begins one, in the bubble of the caller. log may be nil; it is told of
// every command that a server executes.
func NewWorld(log func(at time.Duration, server int, who string, args []string, reply any)) *World {
	return &World{origin: time.Now(), scripts: newScripts(), log: log}
}

// Now is the true time since the world began.
func (w *World) Now() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

func (w *World) now() time.Duration { return time.Since(w.origin) + w.slept }

// Suspend lets time go by while nobody's timers run: to everybody it looks as if
// all had been suspended, and only the clocks had gone on.
func (w *World) Suspend(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slept += d
}
