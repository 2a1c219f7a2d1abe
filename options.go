package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"
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
	logger      *slog.Logger
	clock       clock

	ofMutex bool // the options are a Mutex's, not the Client's
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

// WithOwnerLabel sets the readable part of the owner, which those who are
// refused see as the holder. Default host:pid.
func WithOwnerLabel(s string) Option {
	return func(o *options) error {
		if len(s) > 256 {
			return configError("WithOwnerLabel: the label has %d bytes, at most 256 are allowed", len(s))
		}
		o.label = s
		return nil
	}
}

// WithLogger sets where rare and important events are logged: a node that may
// not vote, debts that were given up. Default slog.Default(); nil is silent. It
// is a setting of the Client, not of a Mutex.
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
		ttl:    defaultTTL,
		drift:  drift{factor: defaultDriftFactor, base: defaultDriftBase},
		prefix: defaultPrefix,
		label:  fmt.Sprintf("%s:%d", host, os.Getpid()),
		logger: slog.Default(),
		clock:  systemClock,
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
	return o, nil
}

// voteTimeout is one node's time to vote.
func (o *options) voteTimeout() time.Duration {
	if o.nodeTimeout != 0 {
		return o.nodeTimeout
	}
	return min(max(o.ttl/20, minNodeTimeout), maxNodeTimeout)
}

// log reports a rare and important event.
func (o *options) log(level slog.Level, msg string, attrs ...any) {
	o.logger.Log(context.Background(), level, "redlock: "+msg, attrs...)
}
