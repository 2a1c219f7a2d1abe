package simredis

import (
	"sync"
	"time"
)

// World is servers and the connections to them. One lock protects all of it.
type World struct {
	mu      sync.Mutex // protects all that follows, and all of the servers and connections
	origin  time.Time
	slept   time.Duration
	agenda  agenda
	last    time.Duration // when the last event happened, since origin
	armed   time.Duration // for when the alarm is set; 0: for never
	alarm   *time.Timer
	scripts *scripts
	log     func(at time.Duration, server int, client string, args []string, reply any)

	noClient bool // servers refuse CLIENT
}

// NewWorld makes a world, in the bubble of the caller. log may be nil; it is called for
// every command that a server executes. The world calls synctest.Wait before each event, so
// no other goroutine may call it at an instant of an event.
func NewWorld(log func(at time.Duration, server int, client string, args []string, reply any)) *World {
	return &World{origin: time.Now(), scripts: newScripts(), log: log}
}

// ForbidClient makes all servers refuse CLIENT, as to users without the right to it.
func (w *World) ForbidClient() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noClient = true
}

// End ends the log. Then everything that the log refers to can be collected, even if a
// client's connections, and with them the world, are still in memory.
func (w *World) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// Now returns the true time since the world began.
func (w *World) Now() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now()
}

func (w *World) now() time.Duration { return w.awake() + w.slept }

// awake returns the time since the world began, without the time of suspensions, as timers
// count it.
func (w *World) awake() time.Duration { return time.Since(w.origin) }

// Suspend lets time pass while no timers run, as if all processes had been suspended and
// only the clocks had gone on.
func (w *World) Suspend(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slept += d
}
