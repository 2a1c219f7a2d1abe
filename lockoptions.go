package redlock

import "time"

// The options of how a lock is held.

// WithTTL sets how long a lease lasts unless it is extended. Default 10 s, at least 50 ms, at most
// a year, in whole milliseconds, rounded up. It must exceed the drift allowance plus two node
// timeouts.
func WithTTL(d time.Duration) Option {
	return option(func(o *options) error {
		if d < minTTL || d > maxTTL {
			return configError("WithTTL(%v): the ttl must be between %v and a year", d, minTTL)
		}
		o.ttl = wholeMillis(d)
		return nil
	})
}

// WithNodeTimeout sets how long one node may take to answer. Default ttl/20, within 5 … 500 ms; at
// least 1 ms. A single lock's node timeout is at most four of the client's, or a second if that is
// longer.
func WithNodeTimeout(d time.Duration) Option {
	return option(func(o *options) error {
		if d < time.Millisecond || d > maxTTL {
			return configError("WithNodeTimeout(%v): the node timeout must be at least 1ms, and less than half of the ttl", d)
		}
		o.nodeTimeout = d
		return nil
	})
}

// WithRenewEvery sets the time from the start of one renewal to the next, less up to a quarter at
// random. Default: a third of the validity. d is at least 1 ms; d plus a node timeout must be less
// than the validity. It excludes WithoutRenewal.
func WithRenewEvery(d time.Duration) Option {
	return option(func(o *options) error {
		if d < time.Millisecond || d > maxTTL {
			return configError("WithRenewEvery(%v): renewals must be at least 1ms apart, and less than the ttl", d)
		}
		o.renewEvery = d
		return nil
	})
}

// WithoutRenewal lets a lease expire after its ttl unless Extend is called. Its LostError then has
// the reason LostExpired.
func WithoutRenewal() Option {
	return option(func(o *options) error {
		o.noRenewal = true
		return nil
	})
}

// WithMaxHold ends a lease at most d after the start of the attempt that got it. Its LostError then
// has the reason LostMaxHold. d is at least 50 ms. Default: no limit.
func WithMaxHold(d time.Duration) Option {
	return option(func(o *options) error {
		if d < minTTL {
			return configError("WithMaxHold(%v): a lease must last for at least %v", d, minTTL)
		}
		o.maxHold = d
		return nil
	})
}

// wholeMillis rounds up to whole milliseconds, which the nodes count ttls in.
func wholeMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// checkTTL checks how a ttl fits to the other settings.
func (o *options) checkTTL(ttl time.Duration) error {
	timeout := o.voteTimeout()
	if spent := o.drift.of(ttl) + 2*timeout; ttl <= spent {
		return configError("the ttl (%v) must exceed the drift allowance (%v) plus two node timeouts (2 × %v): "+
			"raise the ttl or lower the others", ttl, o.drift.of(ttl), timeout)
	}
	return nil
}

// WithReentry lets goroutines that share a context share the lock; they must exclude each other
// themselves. Calls that acquire a Mutex or RWMutex join the lease of the same lock and Client that
// ctx carries, instead of failing with ErrHeld. They return a new Lease, which needs its own
// Unlock; the last one releases the lock. A share cannot be upgraded: ErrHeld. See
// docs/primitives.md, Re-entry.
func WithReentry() Option {
	return option(func(o *options) error {
		o.reentry = true
		return nil
	})
}

// checkRenewal checks how the settings of the renewal fit together.
func (o *options) checkRenewal() error {
	switch validity := o.drift.validity(o.ttl); {
	case o.renewEvery == 0:
		return nil
	case o.noRenewal:
		return configError("WithRenewEvery and WithoutRenewal exclude each other")
	case o.renewEvery+o.voteTimeout() >= validity:
		return configError("the time between renewals (%v) plus the node timeout (%v) must be less than the validity (%v): "+
			"renew earlier or raise the ttl", o.renewEvery, o.voteTimeout(), validity)
	}
	return nil
}

// renewal is how long after a renewal the next one begins; 0: never.
func (o *options) renewal() time.Duration {
	switch {
	case o.noRenewal:
		return 0
	case o.renewEvery != 0:
		return o.renewEvery
	}
	return o.drift.validity(o.ttl) / 3
}

// voteTimeout is one node's time to vote.
func (o *options) voteTimeout() time.Duration {
	if o.nodeTimeout != 0 {
		return o.nodeTimeout
	}
	return min(max(o.ttl/20, minNodeTimeout), maxNodeTimeout)
}

// WithWait bounds how long Lock, RLock, Acquire, Do and RDo wait for the lock; fn may take longer. d is
// above 0. Default: until ctx ends. Lead, Resume and calls that begin with Try ignore it.
//
// After d, the error is context.DeadlineExceeded, and ErrHeld or ErrNoQuorum, whichever came last.
func WithWait(d time.Duration) Option {
	return option(func(o *options) error {
		if d <= 0 {
			return configError("WithWait(%v): the wait must be above 0; TryLock does not wait", d)
		}
		o.wait = d
		return nil
	})
}

// WithBackoff makes calls that wait ask again after f(try), outside the wait queue; waiters in the
// queue go first. try counts the refusals of this call, from 1. A pause is at least 1 ms. Several
// callers call f at once.
func WithBackoff(f func(try int) time.Duration) Option {
	return option(func(o *options) error {
		if f == nil {
			return configError("WithBackoff(nil): a function is needed that returns the pause after a try; without the option Lock waits in the queue")
		}
		o.backoff = f
		return nil
	})
}

// WithMinHold keeps the lock taken until d after the start of the attempt that got it. After an
// earlier Unlock the lock rests until then: nobody gets it. d is above 0, and at most the ttl.
// RLock, Downgrade, Transfer, and the methods of a Multi and a Semaphore return ErrConfig with it.
func WithMinHold(d time.Duration) Option {
	return option(func(o *options) error {
		if d <= 0 {
			return configError("WithMinHold(%v): the minimum hold must be above 0, and at most the ttl", d)
		}
		o.minHold = d
		return nil
	})
}

// WithLockDelay keeps others out for at least d after the end of a lease whose renewals failed,
// that expired, or that reached WithMaxHold. Unlock frees the lock at once. d is above 0, and ttl +
// d, which counts as a ttl, at most a year. ErrConfig: as for WithMinHold. See docs/primitives.md,
// A delay after a lost lease.
func WithLockDelay(d time.Duration) Option {
	return option(func(o *options) error {
		if d <= 0 || d > maxTTL {
			return configError("WithLockDelay(%v): the delay must be above 0, and the ttl and the delay together at most a year", d)
		}
		o.lockDelay = wholeMillis(d)
		return nil
	})
}

// WithWanted closes Lease.Wanted when another caller (of a reader: a writer) waits for the lock, or
// calls Client.Ask. The holder may go on. TryLock and callers WithBackoff do not count. Methods of
// a Semaphore return ErrConfig.
func WithWanted() Option {
	return option(func(o *options) error {
		o.wanted = true
		return nil
	})
}

// WithAnnounce has the holder announce its lease to those who Observe the lock. Lead always does.
// Readers announce nothing; methods of a Semaphore return ErrConfig.
func WithAnnounce() LockOption {
	return option(func(o *options) error {
		o.announce = true
		return nil
	})
}

// forOperator resets WithMinHold, WithLockDelay, WithWanted and WithAnnounce: an operator's lock has none of them.
func forOperator(o *options) error {
	o.minHold, o.lockDelay, o.wanted, o.announce = 0, 0, false, false
	return nil
}

// keyTTL is how long the lock's keys last at the nodes.
func (o *options) keyTTL() time.Duration { return o.ttl + o.lockDelay }

// endsLate reports whether the lock may stay taken after its lease.
func (o *options) endsLate() bool { return o.minHold > 0 || o.lockDelay > 0 }

// checkEnd checks how the settings of the end fit to the ttl.
func (o *options) checkEnd() error {
	switch {
	case o.minHold > o.ttl:
		return configError("the minimum hold (%v) must be at most the ttl (%v): raise the ttl", o.minHold, o.ttl)
	case o.keyTTL() > maxTTL:
		return configError("the ttl (%v) and the lock delay (%v) must be a year at most", o.ttl, o.lockDelay)
	}
	return nil
}
