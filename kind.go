package redlock

import "github.com/redlock-go/redlock/internal/printable"

// kind is a kind of lock: which options it takes, and what its leases can do.
// docs/reference/methods.md has the table for users; tests compare that with what calls do.
type kind struct {
	what       string // in errors
	lock, try  string // its calls for hooks: the one that waits for the lock, and the one that does not
	endsLate   bool   // it takes WithMinHold and WithLockDelay
	wanted     bool   // it takes WithWanted and WithAnnounce
	joins      bool   // WithReentry joins a lease of the caller; else the caller may have several leases
	downgrades bool
	transfers  bool // those of its leases that hold the lock alone
}

var (
	mutexKind  = &kind{what: "a mutex", lock: "lock", try: "trylock", endsLate: true, wanted: true, joins: true, downgrades: true, transfers: true}
	shareKind  = &kind{what: "a share", lock: "rlock", try: "tryrlock", wanted: true, joins: true, downgrades: true, transfers: true}
	setKind    = &kind{what: "a lock of several names", lock: "lock", try: "trylock", wanted: true, joins: true}
	permitKind = &kind{what: "permits of a semaphore", lock: "acquire", try: "tryacquire"}
)

// checkKind sets the error of a lock whose kind does not take its options.
func (l *locker) checkKind() {
	switch k := l.kind; {
	case l.err != nil:
	case !k.endsLate && l.opts.endsLate():
		l.err = errLate(k.what)
	case !k.wanted && l.opts.announce:
		l.err = configError("%s cannot have WithAnnounce: only a holder that is alone can be observed", k.what)
	case !k.wanted && l.opts.wanted:
		l.err = configError("%s cannot have WithWanted: all holders would let go for one caller that waits", k.what)
	}
}

// errLate is the error of what cannot end later than its lease.
func errLate(what string) error {
	return configError("%s cannot have WithMinHold or WithLockDelay, which are for one name that is held alone", what)
}

// checkDowngrade returns why the lease cannot become a share; nil if it can.
func (l *Lease) checkDowngrade() error {
	switch m := l.lock; {
	case !m.kind.downgrades:
		return configError("the lease of %q cannot be downgraded, and goes on: only one of one name can be", printable.Cut(m.name))
	case m.opts.endsLate():
		return errLate("a lease that is downgraded")
	}
	return nil
}
