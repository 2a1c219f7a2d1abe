package redlock

import "time"

// The options of how a lock is held.

// WithTTL sets how long a lease lasts unless it is extended: the time after
// which the nodes free the lock of a holder that died. Default 10 s, at least
// 50 ms, and more than the drift allowance plus two node timeouts. A short ttl
// frees the lock of a dead holder sooner; a long one survives longer pauses of
// the process and longer outages of the nodes. It is rounded up to whole
// milliseconds.
func WithTTL(d time.Duration) Option {
	return func(o *options) error {
		if d < minTTL || d > maxTTL {
			return configError("WithTTL(%v): the ttl must be between %v and a year", d, minTTL)
		}
		o.ttl = wholeMillis(d)
		return nil
	}
}

// WithNodeTimeout sets how long one node may take to answer. Default ttl/20,
// within 5 … 500 ms. At least 1 ms; two of them and the drift allowance must be less than the ttl. That of a single lock must not
// exceed four of the client's, or a second if that is longer. A node whose round trip is longer never counts, so choose
// it above the slowest round trip you want to use; a majority that is silent
// costs a caller this long, a minority nothing.
func WithNodeTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d < time.Millisecond || d > maxTTL {
			return configError("WithNodeTimeout(%v): the node timeout must be at least 1ms, and less than half of the ttl", d)
		}
		o.nodeTimeout = d
		return nil
	}
}

// WithRenewEvery sets how long after a renewal was begun the next one is (up to
// a quarter earlier, at random, so that many leases spread out). Default: a third
// of the validity. d is at least 1 ms, and d and a node timeout together must be less than the validity; else, and
// together with WithoutRenewal, it is ErrConfig.
func WithRenewEvery(d time.Duration) Option {
	return func(o *options) error {
		if d < time.Millisecond || d > maxTTL {
			return configError("WithRenewEvery(%v): renewals must be at least 1ms apart, and less than the ttl", d)
		}
		o.renewEvery = d
		return nil
	}
}

// WithoutRenewal lets leases end with their ttl unless Extend is called. That is what
// becomes of a Lease that is dropped without Unlock as well: nobody releases it before
// its ttl ends, unless the client is closed. (A lease that renews itself is released when
// its dropped handle is garbage collected.) A lease that ends so is a LostError with the
// reason LostExpired, and is logged at level Info.
func WithoutRenewal() Option {
	return func(o *options) error {
		o.noRenewal = true
		return nil
	}
}

// WithMaxHold ends a lease at the latest d after the start of the attempt that got it: its validity
// is never prolonged beyond that. After a hand-off the lease of Resume counts anew. d is at least 50 ms. Default: no end. It is the remedy against a
// holder that hangs while its process, and with it the renewal, goes on. A lease that
// ends so is a LostError with the reason LostMaxHold, and is logged at level Info.
func WithMaxHold(d time.Duration) Option {
	return func(o *options) error {
		if d < minTTL {
			return configError("WithMaxHold(%v): a lease must last for at least %v", d, minTTL)
		}
		o.maxHold = d
		return nil
	}
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

// WithReentry lets goroutines that share a context share the lock: they must exclude each other
// themselves, and that is why it is off by default. Lock, TryLock and Do (and RLock, TryRLock and RDo) whose
// ctx is that of a Do or Lease of the same lock, which fail with ErrHeld otherwise, join that lease.
// They return a new Lease of the same holding, at once, without a call to the nodes. What counts is the
// option of the Mutex that asks, and that both are of the same Client.
//
// Each Lease is released by its own Unlock, and the lock with the last one. So a goroutine that outlives the Do in
// whose context it called Lock keeps the lock until its own Unlock, though its context ends. A Lease that was
// unlocked while others hold the lock is over by itself: its Done is closed, its contexts end, its Err and
// Extend return ErrReleased, it is not Valid, and a second Unlock returns nil. The others go on. A
// Lease that is dropped without Unlock counts as unlocked, and an error is logged.
//
// Owner, token, validity and names are those of the holding, and so are its settings: the inner call's
// options are not used. Extend and ExtendTo set its end for all; a loss, and Close, ends it for all;
// Downgrade makes it a share for all, also for those that asked for the lock alone. The lock
// rests (WithMinHold) after the last Unlock only.
//
// A share under a lease that holds the lock alone is that lease: Shared returns false. A lease that
// holds the lock alone under a share is an upgrade, and fails with ErrHeld. A lease of a Multi can be
// joined for some of its names or all; where one holds only some of the names that are asked for, the call
// fails with ErrHeld.
//
// A call that joins is reported to Trace.CallStart and CallEnd, but there is no ballot and no
// LeaseGranted for it, and Stats does not count it. An Unlock that is not the last one is reported likewise.
// Permits of a Semaphore are not joined: each Acquire gets others.
func WithReentry() Option {
	return func(o *options) error {
		o.reentry = true
		return nil
	}
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

// WithBackoff makes Lock ask again after f(try), and not stand in the wait queue. try counts the
// refusals of this call, from 1 on; a pause of less than 1 ms counts as 1 ms. f is called in the caller's
// goroutine, and by several callers at once; a panic of f is the caller's. Default: no f, and Lock waits in the
// queue, where the nodes wake it.
//
// It is for programs that bring a back-off of their own, and for those to which the nodes cannot send wake-ups: the client
// needs no second connection. It is unfair. A caller with a back-off gives way to every waiter that stands in the
// queue, as TryLock does, and callers with a back-off come in at random. Choose pauses with a random part, and not much
// shorter than the lock is held for: each try is a command to every node.
//
// f is also the pause after an attempt for which too few nodes answered. What Lock returns does not
// change, but for HeldError.Position, which is 0. It goes for Lock, RLock, Acquire, Do, RDo and Lead, of all
// kinds of locks; TryLock, TryRLock and TryAcquire do not wait.
func WithBackoff(f func(try int) time.Duration) Option {
	return func(o *options) error {
		if f == nil {
			return configError("WithBackoff(nil): a function is needed that returns the pause after a try; without the option Lock waits in the queue")
		}
		o.backoff = f
		return nil
	}
}

// WithMinHold keeps the lock taken until d after the start of the attempt that got it, however early the lease ends. (The time
// that Lock waited does not count.) A
// release before that instant lets the lock rest for the time that is left, and does not wait for that; a later one frees the
// lock. So a job that takes no time does not run twice on machines whose clocks differ by less than
// d: the second machine finds the lock taken. While the lock rests nobody holds it, and nobody gets
// it, this client included. A HeldError has the last owner, Resting set, and the time left;
// ForceUnlock ends the rest. The lock rests after Unlock, the end of a Do, Close and a dropped handle, and after
// a lease that is lost; somebody who deletes the keys at a quorum of the nodes ends the rest. A client that crashes leaves its
// keys to end with their ttl.
//
// d must be above 0, and at most the ttl. It is for a name that is held alone: RLock, Downgrade, Handoff, and the
// methods of a Multi and a Semaphore return ErrConfig with it. The nodes' clocks count d, and may be faster than this
// client's by the drift allowance.
func WithMinHold(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return configError("WithMinHold(%v): the minimum hold must be above 0, and at most the ttl", d)
		}
		o.minHold = d
		return nil
	}
}

// WithLockDelay keeps others out for at least d after the end of a lease that ended by itself: its renewals failed, it
// was WithoutRenewal, or it reached WithMaxHold. In that time a holder that is late can notice its loss,
// and its last commands arrive. The keys at the nodes last for the ttl and d from each renewal on, and no release is sent
// after such an end; so others may be kept out for up to a ttl longer than d. A client that crashes keeps others out for
// the ttl and d. Unlock, the end of a Do, Close and a dropped handle free the lock at once, and so does a failed attempt. There
// is no delay after a lease that a quorum of the nodes had lost, and ForceUnlock does not wait.
//
// The nodes put ttl + d on record as a ttl: from then on a node that is new, or was restarted, does not vote for that
// long (WithRestartGuard).
//
// d must be above 0, and ttl + d at most a year; it is rounded up to whole milliseconds. It is
// for a name that is held alone: RLock, Downgrade, Handoff, and the methods of a Multi and a Semaphore return ErrConfig with it. The nodes'
// clocks count d, and may be faster than this client's by the drift allowance.
func WithLockDelay(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 || d > maxTTL {
			return configError("WithLockDelay(%v): the delay must be above 0, and the ttl and the delay together at most a year", d)
		}
		o.lockDelay = wholeMillis(d)
		return nil
	}
}

// WithWanted has the holder told when somebody else wants the lock: Lease.Wanted is closed then. So a holder that could
// go on for long, such as an exporter or a batch job, lets go at a good moment, and keeps the lock while nobody else needs it. Nothing is
// forced: a holder that goes on keeps the lock.
//
// The holder learns of every caller of Lock or Do, of whatever kind, that is refused and stands in the wait queue, also of those that stood there
// when it got the lock, and of Client.Ask. It does not learn of TryLock, nor of a caller WithBackoff, which leave nothing at
// the nodes. The node that refuses the caller sends a message, so the holder knows within a trip of the refusal. A holder that
// a message did not reach, or whose user may not subscribe, learns by its next renewal or Extend. Readers always do: they are told of
// writers, and of Ask, at their next renewal.
//
// The client subscribes at the nodes, as for a Lock that waits, before the first such Lock or TryLock; that takes a node timeout at
// most, once. The option costs those that do not use it nothing. Methods of a Semaphore return ErrConfig with it: all
// holders would let go for one caller.
func WithWanted() Option {
	return func(o *options) error {
		o.wanted = true
		return nil
	}
}

// forOperator resets WithMinHold, WithLockDelay and WithWanted: an operator's lock has none of them.
func forOperator(o *options) error {
	o.minHold, o.lockDelay, o.wanted = 0, 0, false
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

// checkAlone returns the error of a lock, or a lease, that is not of one name held alone; nil if its settings
// allow that.
func (o *options) checkAlone(what string) error {
	if !o.endsLate() {
		return nil
	}
	return configError("%s cannot have WithMinHold or WithLockDelay, which are for one name that is held alone", what)
}
