package redlockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	askEvery  = time.Second           // bounds how often an Elector asks the nodes which machine leads
	waitPause = 20 * time.Millisecond // between two looks of Wait, which ask no node
)

var errUnknown = errors.New("it is not known yet which machine does")

// Elector is a gocron.Elector for gocron.WithDistributedElector: the machine whose Elector leads runs all jobs. It is safe for
// concurrent use.
type Elector struct {
	client  *redlock.Client
	name    string
	minHold time.Duration
	ask     chan struct{} // has a value if the nodes are to be asked which machine leads
	cancel  context.CancelFunc
	running sync.WaitGroup // the two goroutines

	mu       sync.Mutex     // protects what follows
	lease    *redlock.Lease // nil while this machine does not lead
	elected  time.Time      // when the lease began
	answered time.Time      // when IsLeader last returned nil
	whyNot   error          // why this machine does not lead, as far as it is known
	over     bool           // it will not lead again, and whyNot says why
}

// NewElector joins the election of a leader: all machines that give the same name take part, and the foremost one in the wait queue of
// the lock of that name leads. It returns at once. The client must outlive the Elector; Close must be called.
//
// A machine that IsLeader called the leader leads for at least minHold longer, whatever happens to it. So the next
// leader does not run a job again whose scheduled time has yet to come on its clock. minHold must be longer than clocks differ
// by, and no longer than half of the ttl, or the leader hardly ever runs jobs. See DefaultMinHold.
//
// opts are the lock's own, such as redlock.WithTTL; else they are the client's. An error is redlock.ErrConfig: settings that
// redlock refuses, such as a minHold of 0 or one above the ttl, or a nil client.
func NewElector(client *redlock.Client, name string, minHold time.Duration, opts ...redlock.LockOption) (*Elector, error) {
	if client == nil {
		return nil, errNoClient
	}
	// redlock checks minHold as the minimum hold that it is, though the term's lock does not need the option.
	if err := checkSettings(client.Mutex(name, append(slices.Clone(opts), redlock.WithMinHold(minHold))...)); err != nil {
		return nil, err
	}
	e := &Elector{client: client, name: name, minHold: minHold, ask: make(chan struct{}, 1), whyNot: errUnknown}
	e.ask <- struct{}{}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.running.Go(func() { e.campaign(ctx, client.Mutex(name, opts...)) })
	e.running.Go(func() { e.watch(ctx) })
	return e, nil
}

// campaign waits for terms, and leads, until ctx ends.
func (e *Elector) campaign(ctx context.Context, m *redlock.Mutex) {
	defer e.cancel()
	err := m.Lead(ctx, e.lead)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	switch {
	case ctx.Err() != nil:
		e.whyNot = errors.New("its Elector is closed")
	case err == nil: // the client's Close ended the term, and the lease was not lost before
		e.whyNot = redlock.ErrClosed
	default:
		e.whyNot = err
	}
}

// lead is a term. When Close ends it, it lasts until minHold after the last answer of IsLeader.
func (e *Elector) lead(ctx context.Context, lease *redlock.Lease) error {
	e.mu.Lock()
	e.lease, e.elected, e.whyNot = lease, time.Now(), errUnknown
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.lease = nil
	rest := e.minHold - time.Since(e.answered)
	e.mu.Unlock()
	if rest > 0 {
		select {
		case <-time.After(rest):
		case <-lease.Done():
		}
	}
	return nil // Lead itself sees a loss, and the end of ctx
}

// watch asks the nodes which machine leads, for the errors of IsLeader, until ctx ends.
func (e *Elector) watch(ctx context.Context) {
	for {
		select {
		case <-e.ask:
		case <-ctx.Done():
			return
		}
		status, err := e.client.Inspect(ctx, e.name)
		switch {
		case err != nil:
		case status.Holder == "":
			err = errors.New("no machine does")
		default:
			err = &redlock.HeldError{Name: e.name, Holder: status.Holder, Label: status.Label, Remaining: status.Remaining}
		}
		e.mu.Lock()
		if !e.over && e.lease == nil {
			e.whyNot = err
		}
		e.mu.Unlock()
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return
		}
	}
}

// IsLeader returns nil if this machine leads, and will for minHold longer at least, unless a quorum of the nodes loses
// the lock. It answers from what this machine knows, and does not wait for the nodes; ctx is not used.
//
// A machine leads from minHold after its election on: the timers of a machine that was suspended fire all at once when it goes
// on, and the leader before may have run those jobs.
//
// Any error means no, and says why. Where another machine leads, errors.As finds a *redlock.HeldError, which names it: the nodes
// are asked in the background, once a second at most, so that is what they said after the call before.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease == nil {
		select {
		case e.ask <- struct{}{}:
		default:
		}
		return fmt.Errorf("redlockgocron: this machine does not lead %q: %w", e.name, e.whyNot)
	}
	now := time.Now()
	if led := now.Sub(e.elected); led < e.minHold {
		return fmt.Errorf("redlockgocron: this machine was elected as leader of %q %v ago, and leads after %v", e.name, led, e.minHold)
	}
	if left := e.lease.Remaining(); left < e.minHold {
		return fmt.Errorf("redlockgocron: this machine may lead %q for %v only, unless its lease is renewed, and runs no job with less than %v: "+
			"too few nodes answer, or it was suspended, or the ttl is shorter than twice the minimum hold", e.name, left, e.minHold)
	}
	e.answered = now
	return nil
}

// Wait returns nil when this machine leads, so that IsLeader returns nil for minHold longer. Until then gocron skips each run, also that of
// a OneTimeJob that starts at once, and never makes up for it: call Wait before the scheduler's Start, or before NewJob.
//
// Errors: when ctx ends, its Err, its cause, and why this machine does not lead; that reason alone if it never will, since
// the Elector or the client is closed.
func (e *Elector) Wait(ctx context.Context) error {
	for {
		err := e.IsLeader(ctx)
		if err == nil || e.isOver() {
			return err
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return fmt.Errorf("%w; %w", err, endOf(ctx))
		}
	}
}

// isOver reports whether this machine will not lead again.
func (e *Elector) isOver() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

// Close gives the lead to another machine, and returns when this one does not lead any more. If IsLeader returned nil just before,
// that takes up to minHold. So call it after the scheduler's Shutdown, and before the client's Close. A second call does nothing.
func (e *Elector) Close() {
	e.cancel()
	e.running.Wait()
}
