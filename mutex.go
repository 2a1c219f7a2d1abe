package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Mutex is the name of a lock, or several names, and its settings. It has no state, and is safe for
// concurrent use.
type Mutex struct {
	locker
	exclusive lock.Exclusive
}

// locker is what all kinds of locks have in common.
type locker struct {
	client *Client
	kind   *kind
	name   string
	names  []string // of a Multi; else nil
	opts   *options
	err    error // bad settings, which calls return
	lock   *lock.Lock

	permits *lock.Permits // of a semaphore's lease; else nil
}

// Mutex returns the Mutex of a name. opts override the client's. Calls return ErrConfig for a bad
// option, and for a name that is empty or, with the prefix, longer than 4096 bytes.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	m := &Mutex{locker: c.newLocker(mutexKind, name, opts)}
	m.exclusive.Init(c.locks, m.opts.terms, m.opts.prefix, m.name)
	m.use(&m.exclusive.Lock)
	return m
}

// maxNames is how many names a Multi has at most: a node executes an attempt on all of them in one
// script, during which it serves nobody else.
const maxNames = 32

// Multi returns a Mutex of 1 to 32 different names, which a caller gets all at once or not at all.
// It excludes every other Mutex, RWMutex and Multi of each name. Calls return ErrConfig for bad
// names or options. See docs/primitives.md, Several names.
func (c *Client) Multi(names []string, opts ...LockOption) *Mutex {
	several := new(lock.Several)
	m := &Mutex{locker: c.newLocker(setKind, "several", opts)}
	if err := checkNames(names); err != nil {
		m.err = err
		names = nil // they may be many
	}
	names = slices.Clone(names)
	for i := range names {
		names[i] = m.bound(names[i], 0)
	}
	several.Init(c.locks, m.opts.terms, m.opts.prefix, names)
	m.name = several.Name
	m.names = several.Names()
	m.use(&several.Lock)
	m.checkKind()
	return m
}

// checkNames returns why there can be no Multi of these names; nil if there can be.
func checkNames(names []string) error {
	if len(names) < 1 || len(names) > maxNames {
		return configError("a lock of several names has %d names: it must have 1 to %d", len(names), maxNames)
	}
	seen := make(map[string]bool)
	for i, name := range names {
		switch {
		case name == "":
			return configError("name %d of %d is empty", i+1, len(names))
		case seen[name]:
			return configError("the name %q is given twice: the names of a lock must be different", printable.Cut(name))
		}
		seen[name] = true
	}
	return nil
}

// newLocker checks a lock's name and settings. use must follow.
func (c *Client) newLocker(k *kind, name string, opts []LockOption) locker {
	l := locker{client: c, kind: k, name: name, opts: &c.opts}
	if len(opts) > 0 {
		settings, err := optionsWith(c.opts, opts)
		l.err = err
		l.opts = &settings
	}
	if name == "" && l.err == nil {
		l.err = configError("the lock's name is empty")
	}
	if limit := c.deadAfter(); l.opts.voteTimeout() > limit && l.err == nil {
		l.err = configError("the node timeout (%v) is longer than the client awaits any answer (%v): give WithNodeTimeout to New or Open",
			l.opts.voteTimeout(), limit)
	}
	l.name = l.bound(name, 0)
	return l
}

// bound checks that a name is short enough, with aside more bytes in its longest key. It returns
// the name, or what errors show of it: a longer one is not copied.
func (l *locker) bound(name string, aside int) string {
	length := len(l.opts.prefix) + len(name) + aside
	if length <= protocol.MaxKey {
		return name
	}
	if l.err == nil {
		l.err = configError("the name %q is too long: with the prefix it has %d bytes, and may have %d", printable.Cut(name), length, protocol.MaxKey)
	}
	return printable.Cut(name)
}

// use sets the lock that the engine knows.
func (l *locker) use(lock *lock.Lock) {
	l.lock = lock
	l.check(lock.Keys()...)
}

// check reports keys that no lock can have.
func (l *locker) check(keys ...string) {
	for _, key := range keys {
		if strings.HasPrefix(key, protocol.Reserved) && l.err == nil {
			l.err = configError("the lock's key %q begins with %q, which is reserved", printable.Cut(key), protocol.Reserved)
		}
	}
}

// Lock acquires the lock, and waits in its queue while others hold it or too few nodes answer. ctx
// bounds the waiting, not the holding: give it a deadline, or use WithWait. A failed attempt is
// undone at all nodes.
//
// Errors: when ctx ends, one that is its Err, its cause, and ErrHeld or ErrNoQuorum, whichever came
// last; ErrHeld at once where ctx is that of a Do or Lease of this lock (see WithReentry);
// ErrNoQuorum at once where waiting cannot help, as for a wrong password; ErrClosed; ErrConfig.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, true, m.opts.wait)
}

// TryLock acquires the lock without waiting for a holder. It mostly takes one node timeout at most:
// see docs/primitives.md, Mutex.
//
// Errors: ErrHeld (a *HeldError names the holder); ErrNoQuorum (a *QuorumError has each node's
// vote); ctx's cause; ErrClosed; ErrConfig.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, false, 0)
}

// acquire makes a call that returns a lease. If it waits for the lock, it does so for a time at most; 0: until ctx ends.
func (m *locker) acquire(ctx context.Context, waits bool, wait time.Duration) (*Lease, error) {
	op, acquire := m.kind.try, (*lock.Lock).TryAcquire
	if waits {
		op, acquire = m.kind.lock, (*lock.Lock).Acquire
	}
	ctx, call := m.client.observe.begin(ctx, op, m.name)
	if m.err != nil {
		call.end(nil, m.err)
		return nil, m.err
	}
	if joined, err := m.nested(ctx); joined != nil || err != nil { // no node is asked
		if err != nil {
			err = &waitError{op: "lock", name: m.name, cause: err}
		}
		if joined != nil && m.opts.announce {
			joined.announce()
		}
		call.end(joined, err)
		return joined, err
	}
	if wait > 0 { // the lease's user does not see this context
		bounded, cancel := context.WithTimeoutCause(ctx, wait, waitOver(wait))
		defer cancel()
		ctx = bounded
	}
	held, failure := acquire(m.lock, ctx)
	if failure != nil {
		err := failureError(m.name, failure)
		call.end(nil, err)
		return nil, err
	}
	l := m.newLease(held)
	call.end(l, nil)
	return l, nil
}

// newLease makes the user's Lease of what the engine acquired.
func (m *locker) newLease(held *lease.Lease) *Lease {
	l := &Lease{lock: m}
	held.Bind(&l.handle)
	if m.opts.announce {
		l.announce()
	}
	return l
}

// Do locks, runs fn, and unlocks when fn returns or panics. ctx bounds the waiting and fn; WithWait
// bounds the waiting alone. fn's ctx is cancelled, with the cause, no later than the lease's validity
// ends: fn must return then.
//
// Do returns Lock's error, or fn's, joined with a *LostError if the lease was lost before fn
// returned. It returns no other error of Unlock.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryDo is Do by TryLock: if the lock is held, it returns ErrHeld and does not run fn. Errors:
// TryLock's, else those of Do.
func (m *Mutex) TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := m.TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// nested finds a caller that would wait for itself: its ctx is a lease's, of the same lock,
// that is held. With WithReentry it returns a Lease that has joined that one, if that holds all that
// is asked for. Else it returns an error.
func (m *locker) nested(ctx context.Context) (joined *Lease, err error) {
	held, _ := ctx.Value(heldKey{}).(*heldLease)
	if held == nil || ctx.Err() != nil || m.client.life.IsClosing() {
		return nil, nil
	}
	if !m.kind.joins { // a caller may have several leases
		return nil, m.checkPermits(held)
	}
	for m.opts.reentry {
		outer := held.find(m, true)
		if outer == nil {
			break
		}
		joined := &Lease{lock: outer.lock}
		if joined.handle.Join(&outer.handle, m.lock.Shared(), m.shareOf(outer)) == nil {
			return joined, nil
		} // else it has ended meanwhile, and find does not return it again
	}
	switch outer := held.find(m, false); {
	case outer == nil:
		return nil, nil
	case outer.Shared() && !m.lock.Shared():
		return nil, fmt.Errorf("%w by this very caller: its context is that of an RDo or shared Lease of the same name, "+
			"and a share cannot become a lease that holds the lock alone; unlock the share first", ErrHeld)
	case !lock.Cover(outer.lock.lock.Keys(), m.lock.Keys()):
		return nil, fmt.Errorf("%w by this very caller, but not all of its names: its context is that of a Do or Lease of %q; "+
			"unlock that first, or lock all names together", ErrHeld, printable.Cut(outer.Name()))
	}
	return nil, fmt.Errorf("%w by this very caller: its context is that of a Do or Lease of the same name, "+
		"so waiting would be for itself; use the lease at hand (Held, or WithReentry), or a context of its own", ErrHeld)
}

// shareOf returns what a lease becomes when only callers like m hold it; nil if it stays exclusive, since m asks
// for that or the lease cannot be downgraded.
func (m *locker) shareOf(outer *Lease) lease.Lock {
	if !m.lock.Shared() || outer.checkDowngrade() != nil {
		return nil
	}
	return outer.asShare()
}

// Held returns the innermost valid lease that ctx carries and that holds all that Lock would get;
// else false. It asks no node. Leave Unlock to the caller that acquired the lease.
// See docs/primitives.md, Re-entry.
func (m *Mutex) Held(ctx context.Context) (*Lease, bool) {
	if m.err != nil {
		return nil, false
	}
	held, _ := ctx.Value(heldKey{}).(*heldLease)
	l := held.find(&m.locker, true)
	return l, l != nil
}

// Lead elects a leader: it calls Do until Do returns nil or ctx ends. While fn runs, its caller
// leads. After a failed term, or ErrNoQuorum of Lock, Lead pauses for at most a ttl, but not after
// ErrResign. It ignores WithWait. See docs/primitives.md, Leader.
//
// Errors: when ctx ends, its Err, its cause and the last error met; ErrClosed; ErrConfig; ErrHeld, as
// for Lock.
func (m *Mutex) Lead(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	var last error
	for failures := 1; ; failures++ {
		lease, err := m.acquire(ctx, true, 0)
		if ended := (*waitError)(nil); errors.As(err, &ended) {
			return &waitError{op: "lead", name: m.name, cause: ended.cause, last: cmp.Or(ended.last, last)}
		}
		if errors.Is(err, ErrConfig) {
			return err
		}
		if err == nil {
			lease.announce()
			began := m.opts.clock()
			err = lease.do(ctx, fn)
			led := m.opts.clock() - began
			if led >= m.opts.ttl {
				failures = 1
			}
			switch end := m.whyOver(ctx); {
			case err == nil:
				return nil
			case end != nil:
				return &waitError{op: "lead", name: m.name, cause: end, last: err, led: max(led, 1)}
			case m.resigned(ctx, lease, err):
				failures-- // it is none
				continue
			}
		}
		last = err
		if err := m.pauseLeading(ctx, failures, last); err != nil {
			return &waitError{op: "lead", name: m.name, cause: err, last: last}
		}
	}
}

// resigned reports whether a term ended since its leader resigned. It did not if the lease was lost
// before, nor if the caller still holds the lock by another lease (WithReentry): then no waiter leads,
// and a leader that resigns whenever a caller waits would spin.
func (m *Mutex) resigned(ctx context.Context, lease *Lease, err error) bool {
	_, held := m.Held(ctx)
	return errors.Is(err, ErrResign) && !errors.Is(lease.Err(), ErrLost) && !held
}

// whyOver returns why Lead cannot go on: what ended ctx, or ErrClosed; nil if it can.
func (m *Mutex) whyOver(ctx context.Context) error {
	if m.client.life.IsClosing() && ctx.Err() == nil {
		return ErrClosed
	}
	return life.EndOf(ctx)
}

// pauseLeading pauses between a failure of a leader, or of an election, and the next election.
// failures is how many there were in a row. Errors: ctx's cause, or ErrClosed.
func (m *Mutex) pauseLeading(ctx context.Context, failures int, why error) error {
	pause := m.opts.voteTimeout()
	for ; failures > 1 && pause < m.opts.ttl; failures-- {
		pause *= 2
	}
	pause = min(pause, m.opts.ttl)
	pause -= m.opts.random.Below(pause/2, "leading")
	if end := m.whyOver(ctx); end != nil {
		return end
	}
	m.client.events.Log(slog.LevelWarn, "a leader's term or election failed; Lead tries again after a pause",
		"name", m.name, "pause", pause, "error", why)
	return m.client.life.Pause(ctx, pause)
}
