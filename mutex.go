package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Mutex is the name of a lock, or several names, and its settings. It has no state: each Lock
// returns a Lease of its own, so that no holder can release another's lock. It
// is safe for concurrent use, and cheap to make anew for every use.
type Mutex struct {
	locker
	exclusive lock.Exclusive
}

// locker is what all kinds of locks have in common.
type locker struct {
	client *Client
	name   string
	names  []string // of a Multi; else nil
	opts   *options
	err    error // bad settings, which calls return
	lock   *lock.Lock

	permits *lock.Permits // of a semaphore's lease; else nil
}

// Mutex names a lock. opts override the client's for this Mutex; bad ones are
// reported by its Lock and TryLock. The name is not empty, and with the prefix it has at most 4096
// bytes, which need not be UTF-8; else calls return ErrConfig. It does not touch the nodes.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	m := &Mutex{locker: c.newLocker(name, opts)}
	m.exclusive.Init(c.locks, m.opts.terms, m.opts.prefix, m.name)
	m.use(&m.exclusive.Lock)
	return m
}

// maxNames is how many names a Multi has at most: a node executes an attempt on all of them in one
// script, during which it serves nobody else.
const maxNames = 32

// Multi names a lock of several names, which a caller gets all at once or not at all. Each name is
// that of a Mutex, which the lock excludes, as it does the readers and writers of an RWMutex of
// that name, and every other Multi that has it. The order of the names does not matter.
//
// A caller of Lock waits in the wait queues of all names, with one ticket, and holds none of them
// while it waits; so callers whose names overlap cannot wait for each other in a circle, if they hold no lock when they ask. A name for which it
// is the next in turn stays idle until it gets the others too: keep the names few, and hold them
// briefly. The lease has one token, which is greater than every earlier one of each name.
//
// There must be 1 to 32 names, all different, none empty, and each as short as a Mutex's; Lock and
// TryLock return ErrConfig otherwise, and where an option is bad. Multi does not touch the nodes.
func (c *Client) Multi(names []string, opts ...Option) *Mutex {
	several := new(lock.Several)
	m := &Mutex{locker: c.newLocker("several", opts)}
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
	if m.err == nil {
		m.err = m.opts.checkAlone("a lock of several names")
	}
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
func (c *Client) newLocker(name string, opts []Option) locker {
	l := locker{client: c, name: name, opts: &c.opts}
	if len(opts) > 0 {
		settings := c.opts
		settings.ofMutex = true
		settings, l.err = settings.with(opts)
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

// Lock acquires the lock. If another caller holds it, Lock stands in the lock's wait
// queue with the callers of all clients: first come, first served. It waits also where
// too few nodes answer. ctx bounds the waiting, not the holding: give it a deadline.
//
// Errors: when ctx ends, one that is its Err, its cause, and ErrHeld or ErrNoQuorum,
// whichever was met last (a *HeldError names the holder and the position in the queue);
// ErrHeld at once where ctx is that of a Do or Lease of this very lock (WithReentry joins that
// lease instead);
// ErrNoQuorum at once where so many nodes fail for reasons that waiting cannot
// mend (a wrong password, missing rights, a replica, one server given twice, a
// record of another number of nodes, a key of another type) that there will be no
// quorum; ErrClosed; ErrConfig. After an error nothing of the attempt stays at the
// nodes.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, m.op("lock", "rlock"), m.lock.Acquire)
}

// TryLock acquires the lock without waiting for a holder. It takes at most one
// node timeout, and another one where the nodes' counts differ; where the votes were
// split among callers that came at the same instant, it asks up to three times, and
// takes five node timeouts at most.
// While the client has enough attempts under way, it waits for its turn, for a node timeout
// at most.
//
// Errors: ErrHeld where a quorum answered and one owner may have a quorum (a *HeldError
// names it), or ctx is that of a Do or Lease of this very lock (WithReentry joins that lease
// instead);
// ErrNoQuorum (a *QuorumError has each node's vote); ctx's cause; ErrClosed;
// ErrConfig. After an error nothing of the attempt stays at the nodes.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, m.op("trylock", "tryrlock"), m.lock.TryAcquire)
}

// op names a call for hooks: alone if the caller asks for the lock alone, else share.
func (m *locker) op(alone, share string) string {
	if m.lock.Shared() {
		return share
	}
	return alone
}

// acquire makes a call that returns a lease.
func (m *locker) acquire(ctx context.Context, op string, by func(context.Context) (*lease.Lease, *lock.Failure)) (*Lease, error) {
	ctx, call := m.client.observe.begin(ctx, op, m.name)
	l, err := m.leaseOf(ctx, by)
	call.end(l, err)
	return l, err
}

func (m *locker) leaseOf(ctx context.Context, by func(context.Context) (*lease.Lease, *lock.Failure)) (*Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	switch joined, err := m.nested(ctx); {
	case err != nil:
		return nil, &waitError{op: "lock", name: m.name, cause: err}
	case joined != nil:
		return joined, nil
	}
	held, failure := by(ctx)
	if failure != nil {
		return nil, failureError(m.name, failure)
	}
	l := &Lease{lock: m}
	held.Bind(&l.handle)
	return l, nil
}

// Do locks, runs fn, and unlocks. fn's ctx is cancelled, with a cause that is
// ErrLost, no later than the validity of the lease ends: fn must return then. (The cause is ErrHandedOff or
// ErrReleased where fn itself ended the lease.) The lease is released when fn returns or panics.
//
// It returns Lock's error, or fn's, joined with a *LostError (ErrLost) if the lease
// was lost before fn returned: then another caller may have held the lock while
// fn was running. The LostError is not repeated if fn's error has it, as the cause of fn's ctx. It does not return other errors of Unlock: where no quorum confirmed the release, the lock may stay
// taken for up to a ttl, as Trace.CallEnd shows.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// nested finds a caller that would wait for itself: its ctx is a lease's, of the same lock,
// that is held. With WithReentry it returns a Lease that has joined that one, if that holds all that
// is asked for. Else it returns an error.
func (m *locker) nested(ctx context.Context) (joined *Lease, err error) {
	if m.permits != nil {
		return nil, nil // a caller may hold several; see Semaphore.request
	}
	held, _ := ctx.Value(heldKey{}).(*heldLease)
	if held == nil || ctx.Err() != nil || m.client.life.IsClosing() {
		return nil, nil
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

// Held returns the lease of this lock that ctx carries: that under whose Do, or from whose
// Lease.Context, ctx was made, if it is valid now. It makes no call to the nodes. With several of them it
// is the innermost.
//
// The lease must hold all that Lock of this Mutex would get: a Multi's lease is also that of each
// of its names, but not the other way round; a lease that holds the lock alone is also that of the
// readers' side (RWMutex.RLocker), but a share is not that of the Mutex. It must be of the same Client.
// Held returns false for a Mutex whose settings are bad.
//
// It is the Lease itself, not another one as Lock WithReentry returns: leave its Unlock to the
// caller that acquired it.
func (m *Mutex) Held(ctx context.Context) (*Lease, bool) {
	if m.err != nil {
		return nil, false
	}
	held, _ := ctx.Value(heldKey{}).(*heldLease)
	l := held.find(&m.locker, true)
	return l, l != nil
}

// Lead elects a leader: it calls Do again and again, until Do returns nil, which is when fn returns nil under a
// lease that was held to the end, or until ctx ends. While fn runs, its caller leads; all others
// wait in the lock's queue. fn's ctx ends no later than another caller can lead, and the lease's
// token is the number of the term: fn must stop when ctx ends. Inspect names the leader, and
// WithMaxHold limits a term. (Callers of RLocker's Lead lead together.)
//
// A term that fails, because fn returned an error or the lease was lost, ends with a pause, and
// then the caller waits for its next term; so does an election that Lock gives up with
// ErrNoQuorum, such as for a wrong password, since an operator may mend that. The pause begins with
// half a node timeout to a whole one, at random, doubles with each failure up to a ttl, and
// begins anew after a term of at least a ttl. Each failure is logged, at level Warn. A panic
// of fn ends Lead as it ends Do.
//
// Errors: when ctx ends, one that is its Err, its cause, and the error that was met last, fn's or Lock's;
// ErrClosed, joined in the same way; ErrConfig; ErrHeld at once where ctx is that of a Do or
// Lease of this very lock (WithReentry leads under that lease instead).
func (m *Mutex) Lead(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	var last error
	for failures := 1; ; failures++ {
		lease, err := m.Lock(ctx)
		if ended := (*waitError)(nil); errors.As(err, &ended) {
			return &waitError{op: "lead", name: m.name, cause: ended.cause, last: cmp.Or(ended.last, last)}
		}
		if errors.Is(err, ErrConfig) {
			return err
		}
		if err == nil {
			began := m.opts.clock()
			if err = lease.do(ctx, fn); err == nil {
				return nil
			}
			if m.opts.clock()-began >= m.opts.ttl {
				failures = 1
			}
		}
		last = err
		if err := m.pauseLeading(ctx, failures, last); err != nil {
			return &waitError{op: "lead", name: m.name, cause: err, last: last}
		}
	}
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
	switch {
	case ctx.Err() != nil:
		return life.EndOf(ctx)
	case m.client.life.IsClosing():
		return ErrClosed
	}
	m.client.events.Log(slog.LevelWarn, "a leader's term or election failed; Lead tries again after a pause",
		"name", m.name, "pause", pause, "error", why)
	return m.client.life.Pause(ctx, pause)
}
