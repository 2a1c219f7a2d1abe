package redlock

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// Limits and defaults. Durations that depend on the ttl are computed in
// options.settle.
const (
	defaultTTL         = 10 * time.Second
	minTTL             = 50 * time.Millisecond
	maxTTL             = 365 * 24 * time.Hour
	minNodeTimeout     = 5 * time.Millisecond
	maxNodeTimeout     = 500 * time.Millisecond
	defaultDriftFactor = 0.01
	defaultDriftBase   = 2 * time.Millisecond
	defaultPrefix      = "redlock:"
	maxNodes           = 64
)

// ClientOption is a setting that New and Open take.
type ClientOption interface {
	setting
	forClient()
}

// LockOption is a setting that Client.Mutex, RWMutex, Multi, Semaphore and Resume take, for that lock
// alone.
type LockOption interface {
	setting
	forLock()
}

// Option is a setting of locks. New and Open take it as the default of the client's locks.
type Option interface {
	ClientOption
	LockOption
}

// setting changes the options. Nobody else can implement it.
type setting interface{ set(o *options) error }

// clientOption is a setting of the client alone.
type clientOption func(*options) error

func (f clientOption) set(o *options) error { return f(o) }
func (f clientOption) forClient()           {}

// option is a setting of locks.
type option func(*options) error

func (f option) set(o *options) error { return f(o) }
func (f option) forClient()           {}
func (f option) forLock()             {}

type options struct {
	ttl         time.Duration
	nodeTimeout time.Duration // 0 until settled: derived from the ttl
	drift       drift
	prefix      string
	label       string
	renewEvery  time.Duration // 0: derived from the ttl
	noRenewal   bool
	readsOnly   bool          // the client takes no locks
	maxHold     time.Duration // 0: none
	minHold     time.Duration // 0: none
	lockDelay   time.Duration // 0: none
	reentry     bool
	announce    bool                        // holders announce themselves to observers
	wanted      bool                        // holders are told that others want the lock
	wait        time.Duration               // for the lock; 0: until ctx ends
	backoff     func(try int) time.Duration // nil: callers queue
	guard       time.Duration               // at least this; the ttls on record count in any case
	noGuard     bool
	noFencing   bool
	logger      *slog.Logger
	trace       *Trace
	members     func(list []string, master string) (Pool, error) // nil: masters that the pools do not lead to are left out
	clock       system.Clock
	wall        system.Wall
	random      system.Random

	terms *lock.Terms // made of the others when they are checked
}

// WithDrift sets the allowance for clocks that run at different rates: factor × ttl + base of every
// ttl is not used. Default 0.01 and 2 ms. A factor below the real difference makes the lock unsafe.
func WithDrift(factor float64, base time.Duration) Option {
	return option(func(o *options) error {
		if math.IsNaN(factor) || factor < 0 || factor >= 1 {
			return configError("WithDrift(%v, %v): the factor must be at least 0 and below 1", factor, base)
		}
		if base < 0 || base > maxTTL {
			return configError("WithDrift(%v, %v): the base must not be negative, and less than the ttl", factor, base)
		}
		o.drift = drift{factor: factor, base: base}
		return nil
	})
}

// WithPrefix sets the text before a lock's name in its key at the nodes. Default "redlock:"; "" is
// what other Redlock clients have. Prefix and name together have at most 4096 bytes.
func WithPrefix(s string) Option {
	return option(func(o *options) error {
		if len(s) >= protocol.MaxKey {
			return configError("WithPrefix(%q): with a name it may have %d bytes", printable.Cut(s), protocol.MaxKey)
		}
		o.prefix = s
		return nil
	})
}

// WithOwnerLabel sets the readable part of the owner, at most 256 bytes. Default host:pid.
func WithOwnerLabel(s string) Option {
	return option(func(o *options) error {
		if len(s) > 256 {
			return configError("WithOwnerLabel: the label has %d bytes, at most 256 are allowed", len(s))
		}
		o.label = s
		return nil
	})
}

// WithRestartGuard sets the least time for which a node does not vote after it lost its memory.
// Default: the longest ttl on record at the nodes, or in use here. 0 is unsafe, for tests and
// caches only, and must be set for all clients of the nodes or none.
func WithRestartGuard(d time.Duration) ClientOption {
	return clientOption(func(o *options) error {
		if d < 0 || d > maxTTL {
			return configError("WithRestartGuard(%v): the guard must be between 0 and a year", d)
		}
		o.guard, o.noGuard = d, d == 0
		return nil
	})
}

// WithMembers sets how the client reaches masters that it was not given: open returns a pool for one of
// Client.Members. It may be called again, and concurrently. Default with Open: like the first URL.
func WithMembers(open func(addr string) (Pool, error)) ClientOption {
	return clientOption(func(o *options) error {
		if open == nil {
			return configError("WithMembers: the function is nil")
		}
		o.members = func(_ []string, addr string) (Pool, error) { return &memberPool{addr: addr, open: open}, nil }
		return nil
	})
}

// WithoutFencing turns fencing tokens off: Lease.Token is 0.
func WithoutFencing() Option {
	return option(func(o *options) error {
		o.noFencing = true
		return nil
	})
}

// WithTrace sets hooks for the client's events. Default: none. t is copied.
func WithTrace(t *Trace) ClientOption {
	return clientOption(func(o *options) error {
		o.trace = t
		return nil
	})
}

// WithLogger sets where the client logs rare and important events. Default slog.Default(); nil is
// silent. It may block or panic, as the hooks of a Trace may.
func WithLogger(l *slog.Logger) ClientOption {
	return clientOption(func(o *options) error {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		o.logger = l
		return nil
	})
}

func defaultOptions() options {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return options{
		ttl:    defaultTTL,
		drift:  drift{factor: defaultDriftFactor, base: defaultDriftBase},
		prefix: defaultPrefix,
		label:  fmt.Sprintf("%s:%d", host, os.Getpid()),
		logger: slog.Default(),
		clock:  system.Now,
		wall:   time.Now,
		random: system.OSRandom{},
	}
}

// optionsWith returns a copy of o changed by opts, its relations checked. o itself
// keeps a node timeout of 0, so that a Mutex with another ttl derives its own.
func optionsWith[S setting](o options, opts []S) (options, error) {
	for i, opt := range opts {
		if any(opt) == nil {
			return o, configError("option %d is nil", i)
		}
		if err := opt.set(&o); err != nil {
			return o, err
		}
	}
	if err := o.checkTTL(o.ttl); err != nil {
		return o, err
	}
	if err := o.checkRenewal(); err != nil {
		return o, err
	}
	if err := o.checkEnd(); err != nil {
		return o, err
	}
	o.terms = o.newTerms()
	return o, nil
}

// newTerms returns the settings as the locks take them: numbers, with the drift allowance taken
// off.
func (o *options) newTerms() *lock.Terms {
	t := &lock.Terms{
		Lease: lease.Terms{TTL: o.keyTTL(), Validity: o.drift.validity(o.ttl), RenewEvery: o.renewal(), MaxHold: o.maxHold,
			MinHold: o.minHold, Delayed: o.lockDelay > 0, NodeTimeout: o.voteTimeout(), Random: o.random},
		Wait: waitqueue.Terms{TTL: o.keyTTL(),
			// A caller that wants a lease that is not renewed wants its full ttl. A minimum hold and a lock
			// delay need keys that last for it.
			Parking:          o.renewal() > 0 && o.maxHold == 0 && !o.endsLate() && o.ttl > protocol.ReservationTTL,
			ExecutedValidity: o.drift.validity(protocol.ReservationTTL),
			Random:           o.random},
		Label:      o.label,
		Fencing:    !o.noFencing,
		Wanted:     o.wanted,
		Backoff:    o.backoff,
		LeastToken: protocol.FirstCount,
		Random:     o.random,
	}
	if o.noGuard {
		t.LeastToken = 1
	}
	t.Box()
	return t
}

// What this library's own tests may set and see.
func init() {
	testhook.WithClock = func(c system.Clock) any {
		return option(func(o *options) error { o.clock = c; return nil })
	}
	testhook.WithWall = func(w system.Wall) any {
		return option(func(o *options) error { o.wall = w; return nil })
	}
	testhook.WithRandom = func(r system.Random) any {
		return option(func(o *options) error { o.random = r; return nil })
	}
	testhook.Engine = func(client any) *lock.Engine { return client.(*Client).locks }
	testhook.Lock = func(mutex any) *lock.Lock {
		if s, ok := mutex.(*Semaphore); ok {
			return s.request(1).lock
		}
		return mutex.(*Mutex).lock
	}
	testhook.Exclusive = func(mutex any) *lock.Exclusive { return &mutex.(*Mutex).exclusive }
	testhook.Lease = func(l any) *lease.Lease { return l.(*Lease).state() }
	testhook.Handle = func(l any) *lease.Handle { return &l.(*Lease).handle }
}
