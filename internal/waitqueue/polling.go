package waitqueue

import (
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// A waiter looks when it asks again though no node has woken it. This file decides how often.
// Looks make up for lost wake-ups, for locks that other programs release without a wake-up,
// and for clients that die: a live client looks at the lock in time, and finds it free.
// docs/safety.md (How long a lock has no holder) argues how long that takes;
// internal/protocol/parts/queue.lua relies on these paces.

const (
	// nearLook is the pace of a client's foremost waiter while fewer than nearClients
	// other clients stand ahead of it. ahead.lua counts up to nearClients.
	nearLook    = time.Second
	nearClients = 3

	// A client's foremost waiter that stands farther back looks farLook after the end
	// of the lock's keys at the latest, and up to farSpread earlier, so that many
	// clients do not look at the same instant.
	farLook   = 2500 * time.Millisecond
	farSpread = 500 * time.Millisecond

	// The other waiters look every positionLook times their position in the queue, the
	// position counted up to maxPosition.
	positionLook = 1200 * time.Millisecond
	maxPosition  = 300
)

// poller decides when a waiter looks.
type poller struct {
	queue  *Queue
	terms  *Terms
	looked bool // the waiter has learned its position before

	challengeEnds time.Duration // of the last challenge that an attempt of the waiter's made, or 0
}

// after returns how long the waiter waits for a wake-up before it looks again. foremost reports
// whether it is its client's foremost waiter for the lock.
func (p *poller) after(s Standing, foremost bool) time.Duration {
	near := foremost && s.Ahead < nearClients
	d := p.nearPace()
	if !near {
		d = p.positionPace(s.Nearest)
		if foremost {
			d = min(d, p.farPace(s))
		}
	}
	p.looked = true
	now := p.queue.cfg.Clock()
	if s.Challenged {
		p.challengeEnds = now + protocol.ReservationTTL + time.Millisecond
	}
	if left := p.challengeEnds - now; foremost && left > 0 {
		d = min(d, left) // those that are dead have no tickets then
	}
	ends := s.Free + time.Millisecond + p.terms.Random.Below(2*time.Millisecond, "looking")
	switch {
	case s.Position <= 1 || s.Position == 2 && s.Reserved || s.Granted:
		// The holder, or the waiter that was woken, may have died: then the keys end.
		d = min(d, ends)
	case near:
		// The keys end a little later at other nodes: this look must not come just before
		// that, since the next one is a second later.
		d = min(d, max(ends, nearLook/4))
	}
	return d
}

// nearPace returns the pace of a client's foremost waiter near the head of the queue.
func (p *poller) nearPace() time.Duration {
	return p.shorten(system.Jitter(p.terms.Random, nearLook, "looking"))
}

// positionPace returns the pace of a waiter whose client has an earlier one in the queue:
// that one looks at the lock for both; this one only keeps its position.
func (p *poller) positionPace(position int) time.Duration {
	d := system.Jitter(p.terms.Random, time.Duration(min(max(position, 1), maxPosition))*positionLook, "looking")
	if !p.looked {
		d = d * 8 / 5 // where many come at once, waiters that asked earlier are yet to join
	}
	return p.shorten(d)
}

// farPace returns the pace of a client's foremost waiter farther back. All clients ahead may
// die, and the holder too: so it looks soon after the end of the keys that the nodes show
// now. A reservation is such a key too: a TryLock may have made it, and a TryLock never
// looks again.
func (p *poller) farPace(s Standing) time.Duration {
	d := p.terms.TTL + farLook - p.terms.Random.Below(farSpread, "looking")
	d = min(d, s.Free+farLook-p.terms.Random.Below(farSpread, "looking"))
	return p.shorten(d)
}

// shorten shortens a pace where too few nodes can wake the client.
func (p *poller) shorten(pace time.Duration) time.Duration {
	if !p.queue.canWake() {
		return pace / 4
	}
	return pace
}
