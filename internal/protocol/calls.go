package protocol

import (
	"strconv"
	"time"
)

// What calls about one lock say, whichever scripts they call. The scripts that are loaded are
// called by EVALSHA. Arguments that many commands share are boxed once.

// Settings are the arguments that all calls about a lock have in common.
type Settings struct {
	TTL    any  // of the lock's keys, in milliseconds
	Least  any  // the least count that shows a record to be whole
	Label  any  // the readable part of owners
	Tokens bool // leases have tokens
}

// NewSettings makes settings.
func NewSettings(ttl time.Duration, least int64, label string, tokens bool) Settings {
	return Settings{TTL: ttl.Milliseconds(), Least: strconv.FormatInt(least, 10), Label: label, Tokens: tokens}
}

// AttemptCall asks for a lock.
type AttemptCall struct {
	Owner  any
	Ticket any // "" if the caller does not queue
	Before any // the owner of the waiter's attempt before; "" if there is none
}

// RaiseCall raises the counters of a lease's locks to its token.
type RaiseCall struct {
	Owner string
	Token int64
}

// RenewalCall prolongs a lease.
type RenewalCall struct {
	Owner  any
	Ticket any // of the waiter that got the lease; "" if it did not queue
	TTL    any // from now on, in milliseconds
}

// ReleaseCall gives back a lease or an attempt. With a ticket, it leaves the wait queue, unless Stay is set.
type ReleaseCall struct {
	Owner  string
	Ticket string // "" if the owner does not stand in the wait queue
	Stay   bool   // the ticket keeps its position

	// PassedQueue is set without a ticket: the attempt was granted what was free for waiters,
	// so a waiter was woken before that did not come.
	PassedQueue bool
}

// queue adds what the release says of the wait queue. label is the client's.
func (c ReleaseCall) queue(args []any, label any) []any {
	switch {
	case c.Stay:
		return append(args, c.Ticket, label)
	case c.PassedQueue:
		return append(args, "")
	case c.Ticket != "":
		return append(args, c.Ticket)
	}
	return args
}

// Milliseconds returns d as commands have it, rounded up.
func Milliseconds(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }
