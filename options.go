package redlock

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
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

// Option changes a setting. Options given to New or Open are the defaults of
// every Mutex; those given to Client.Mutex go for that Mutex alone. A setting
// that is out of bounds, or out of relation to another one, is reported as
// ErrConfig: by New and Open, or by the Mutex's Lock and TryLock.
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
	guard       time.Duration // at least this; the ttls on record count in any case
	noGuard     bool
	fencing     bool
	logger      *slog.Logger
	trace       *Trace
	clock       system.Clock
	random      system.Random

	ofMutex bool        // the options are a Mutex's, not the Client's
	terms   *lock.Terms // made of the others when they are checked
}

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
		o.ttl = (d + time.Millisecond - 1).Truncate(time.Millisecond)
		return nil
	}
}

// WithNodeTimeout sets how long one node may take to answer. Default ttl/20,
// within 5 … 500 ms. A node whose round trip is longer never counts, so choose
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

// WithPrefix sets what is put before a lock's name to make its key at the
// nodes. Default "redlock:". With "" the key is the name itself, as other
// Redlock clients have it: those and this library then exclude each other.
func WithPrefix(s string) Option {
	return func(o *options) error {
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

// WithRenewEvery sets how long after a renewal was begun the next one is (up to
// a quarter earlier, at random, so that many leases spread out). Default: a third
// of the validity. A renewal that is begun then must be able to end, by the node
// timeout, within the validity.
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

// WithMaxHold ends a lease at the latest d after it was asked for: its validity
// is never prolonged beyond that. Default: no end. It is the remedy against a
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
	timeout := o.voteTimeout()
	if spent := o.drift.of(o.ttl) + 2*timeout; o.ttl <= spent {
		return o, configError("the ttl (%v) must exceed the drift allowance (%v) plus two node timeouts (2 × %v): "+
			"raise the ttl or lower the others", o.ttl, o.drift.of(o.ttl), timeout)
	}
	if err := o.checkRenewal(); err != nil {
		return o, err
	}
	o.terms = o.newTerms()
	return o, nil
}

// newTerms returns the settings as the locks take them: numbers, with the drift allowance taken
// off.
func (o *options) newTerms() *lock.Terms {
	t := &lock.Terms{
		Lease: lease.Terms{TTL: o.ttl, Validity: o.drift.validity(o.ttl), RenewEvery: o.renewal(), MaxHold: o.maxHold,
			NodeTimeout: o.voteTimeout(), Random: o.random},
		Wait: waitqueue.Terms{TTL: o.ttl,
			// A caller that wants a lease that is not renewed wants its full ttl.
			Parking:          o.renewal() > 0 && o.maxHold == 0 && o.ttl > protocol.ReservationTTL,
			ExecutedValidity: o.drift.validity(protocol.ReservationTTL),
			Random:           o.random},
		Label:      o.label,
		Fencing:    o.fencing,
		LeastToken: protocol.FirstCount,
		Random:     o.random,
	}
	if o.noGuard {
		t.LeastToken = 1
	}
	t.Box()
	return t
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

// What this library's own tests may set and see.
func init() {
	testhook.WithClock = func(c system.Clock) any {
		return Option(func(o *options) error { o.clock = c; return nil })
	}
	testhook.WithRandom = func(r system.Random) any {
		return Option(func(o *options) error { o.random = r; return nil })
	}
	testhook.Engine = func(client any) *lock.Engine { return client.(*Client).locks }
	testhook.Lock = func(mutex any) *lock.Lock { return mutex.(*Mutex).lock }
	testhook.Exclusive = func(mutex any) *lock.Exclusive { return &mutex.(*Mutex).exclusive }
	testhook.Lease = func(l any) *lease.Lease { return l.(*Lease).state() }
}
