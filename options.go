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
	"github.com/redlock-go/redlock/internal/testhook"
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

// Option changes a setting. Options given to New or Open are the defaults of all locks of
// the client; those given to Client.Mutex, RWMutex, Multi, Semaphore or Resume go for that
// lock alone. A setting that is out of bounds, or does not fit to another one, is reported as
// ErrConfig: by New and Open, or by the calls that acquire the lock.
type Option func(*options) error

type options struct {
	ttl         time.Duration
	nodeTimeout time.Duration // 0 until settled: derived from the ttl
	drift       drift
	prefix      string
	label       string
	renewEvery  time.Duration // 0: derived from the ttl
	noRenewal   bool
	maxHold     time.Duration // 0: none
	minHold     time.Duration // 0: none
	lockDelay   time.Duration // 0: none
	reentry     bool
	wanted      bool                        // holders are told that others want the lock
	backoff     func(try int) time.Duration // nil: callers queue
	guard       time.Duration               // at least this; the ttls on record count in any case
	noGuard     bool
	fencing     bool
	logger      *slog.Logger
	trace       *Trace
	clock       system.Clock
	random      system.Random

	ofMutex bool        // the options are a Mutex's, not the Client's
	terms   *lock.Terms // made of the others when they are checked
}

// WithDrift sets the allowance for clocks that run at different rates: of every
// ttl, factor × ttl + base is not used. Default 0.01 and 2 ms. A factor below
// what your machines' clocks really differ by makes the lock unsafe.
func WithDrift(factor float64, base time.Duration) Option {
	return func(o *options) error {
		if math.IsNaN(factor) || factor < 0 || factor >= 1 {
			return configError("WithDrift(%v, %v): the factor must be at least 0 and below 1", factor, base)
		}
		if base < 0 || base > maxTTL {
			return configError("WithDrift(%v, %v): the base must not be negative, and less than the ttl", factor, base)
		}
		o.drift = drift{factor: factor, base: base}
		return nil
	}
}

// WithPrefix sets what is put before a lock's name to make its key at the nodes. Default
// "redlock:". With "" the key is the name itself, as other Redlock clients have it: those and this
// library then exclude each other. A prefix and a name together have at most 4096 bytes.
func WithPrefix(s string) Option {
	return func(o *options) error {
		if len(s) >= protocol.MaxKey {
			return configError("WithPrefix(%q): with a name it may have %d bytes", printable.Cut(s), protocol.MaxKey)
		}
		o.prefix = s
		return nil
	}
}

// WithOwnerLabel sets the readable part of the owner, which refused
// callers see as the holder. Default host:pid.
func WithOwnerLabel(s string) Option {
	return func(o *options) error {
		if len(s) > 256 {
			return configError("WithOwnerLabel: the label has %d bytes, at most 256 are allowed", len(s))
		}
		o.label = s
		return nil
	}
}

// WithRestartGuard sets how long a node does not vote, at least, after it lost
// its memory. Default: the longest ttl on record at the nodes, or in use here;
// a longer guard than that does no harm. 0 turns admission off: then a master
// that restarts without its data can vote twice, and tokens can go backwards.
// That is for tests and caches only. It is a setting of the Client, not of a
// Mutex, and must be 0 for all clients of the nodes or for none.
func WithRestartGuard(d time.Duration) Option {
	return func(o *options) error {
		if o.ofMutex {
			return configError("WithRestartGuard is a setting of the Client: give it to New or Open")
		}
		if d < 0 || d > maxTTL {
			return configError("WithRestartGuard(%v): the guard must be between 0 and a year", d)
		}
		o.guard, o.noGuard = d, d == 0
		return nil
	}
}

// WithFencing turns fencing tokens on or off. Default: on. Without them
// Lease.Token is 0, a vote costs a node one or two commands instead of four, and a node that is
// wiped while the client is connected to it is noticed at its next connection
// only.
func WithFencing(on bool) Option {
	return func(o *options) error {
		o.fencing = on
		return nil
	}
}

// WithTrace sets hooks that are called when something happens. Default: none. t is
// copied. It is a setting of the Client, not of a Mutex.
func WithTrace(t *Trace) Option {
	return func(o *options) error {
		if o.ofMutex {
			return configError("WithTrace is a setting of the Client: give it to New or Open")
		}
		o.trace = t
		return nil
	}
}

// WithLogger sets where rare and important events are logged: a node that may
// not vote or is down, and that it is back; a lease in danger, lost, or dropped.
// Each line has the attribute client, which names the Client in its tickets at the nodes.
// Default slog.Default(); nil is silent. It is a setting of the Client, not of a
// Mutex.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if o.ofMutex {
			return configError("WithLogger is a setting of the Client: give it to New or Open")
		}
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		o.logger = l
		return nil
	}
}

func defaultOptions() options {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return options{
		ttl:     defaultTTL,
		drift:   drift{factor: defaultDriftFactor, base: defaultDriftBase},
		prefix:  defaultPrefix,
		fencing: true,
		label:   fmt.Sprintf("%s:%d", host, os.Getpid()),
		logger:  slog.Default(),
		clock:   system.Now,
		random:  system.OSRandom{},
	}
}

// with returns a copy of o changed by opts, its relations checked. o itself
// keeps a node timeout of 0, so that a Mutex with another ttl derives its own.
func (o options) with(opts []Option) (options, error) {
	for i, opt := range opts {
		if opt == nil {
			return o, configError("option %d is nil", i)
		}
		if err := opt(&o); err != nil {
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
		Fencing:    o.fencing,
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
		return Option(func(o *options) error { o.clock = c; return nil })
	}
	testhook.WithRandom = func(r system.Random) any {
		return Option(func(o *options) error { o.random = r; return nil })
	}
	testhook.Engine = func(client any) *lock.Engine { return client.(*Client).locks }
	testhook.Lock = func(mutex any) *lock.Lock {
		if s, ok := mutex.(*Semaphore); ok {
			return s.of(1).lock
		}
		return mutex.(*Mutex).lock
	}
	testhook.Exclusive = func(mutex any) *lock.Exclusive { return &mutex.(*Mutex).exclusive }
	testhook.Lease = func(l any) *lease.Lease { return l.(*Lease).state() }
	testhook.Handle = func(l any) *lease.Handle { return &l.(*Lease).handle }
}
