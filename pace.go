package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/system"
)

// A waiter looks when it asks again though no node has called it. This file decides how
// often. Looks make up for lost calls, for locks that other programs release without a
// call, and for clients that die: a live client looks at the lock in time, and finds it
// free. docs/algorithm.md argues how long that takes; internal/protocol/line.lua relies on these
// paces.

const (
	// nearLook is the pace of a client's foremost waiter while fewer than nearClients
	// other clients stand ahead of it. acquire.lua counts up to nearClients.
	nearLook    = time.Second
	nearClients = 3

	// A client's foremost waiter that stands farther back looks farLook after the end
	// of the lock's keys at the latest, and up to farSpread earlier, so that many
	// clients do not look at the same instant.
	farLook   = 2500 * time.Millisecond
	farSpread = 500 * time.Millisecond

	// The other waiters look every placeLook times their place in line, the place
	// counted up to lastPlace.
	placeLook = 1200 * time.Millisecond
	lastPlace = 300
)

// patience is how long the waiter waits for a call before it looks again.
func (w *waiter) patience(r *refusal) time.Duration {
	random := w.mutex.opts.random
	foremost := w.mutex.client.line.isForemost(w)
	near := foremost && r.ahead < nearClients
	d := w.nearPace()
	if !near {
		d = w.placePace(r.place)
		if foremost {
			d = min(d, w.farPace(r))
		}
	}
	w.looked = true
	ends := r.free + time.Millisecond + random.Below(2*time.Millisecond, "looking")
	switch {
	case r.place <= 1 || r.place == 2 && r.kept || r.some:
		// The holder, or the waiter that was called, may have died: then the keys end.
		d = min(d, ends)
	case near:
		// The keys end a little later at other nodes: this look must not come just before
		// that, since the next one is a second later.
		d = min(d, max(ends, nearLook/4))
	}
	return d
}

// nearPace is the pace of a client's foremost waiter near the head of the line.
func (w *waiter) nearPace() time.Duration {
	return w.hearing(system.Jitter(w.mutex.opts.random, nearLook, "looking"))
}

// placePace is the pace of a waiter whose client has an earlier one in line: that one
// looks at the lock for both; this one only keeps its place in line.
func (w *waiter) placePace(place int) time.Duration {
	d := system.Jitter(w.mutex.opts.random, time.Duration(min(max(place, 1), lastPlace))*placeLook, "looking")
	if !w.looked {
		d = d * 8 / 5 // where many come at once, waiters that asked earlier are yet to join
	}
	return w.hearing(d)
}

// farPace is the pace of a client's foremost waiter farther back. All clients ahead may
// die, and the holder too: so it looks soon after the end of the keys that the nodes
// show now. A reservation is such a key too: a TryLock may have made it, and a TryLock
// never looks again.
func (w *waiter) farPace(r *refusal) time.Duration {
	m := w.mutex
	d := m.opts.ttl + farLook - m.opts.random.Below(farSpread, "looking")
	d = min(d, r.free+farLook-m.opts.random.Below(farSpread, "looking"))
	return w.hearing(d)
}

// hearing shortens a pace where too few nodes can call the client.
func (w *waiter) hearing(pace time.Duration) time.Duration {
	if w.mutex.client.line.deaf() {
		return pace / 4
	}
	return pace
}
