package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

const (
	// ttl is how long a machine that died keeps the job from the others.
	ttl = 2 * time.Second

	// lateness is by how much one clock is behind; the job is faster than that. Where this
	// machine is too busy for that, the late one waits, but not for longer than patience.
	lateness = 400 * time.Millisecond
	work     = 20 * time.Millisecond
	patience = 10 * time.Second
)

// fleet is all machines, and a record of their work.
type fleet struct {
	demo     *demo.Demo
	machines []*machine
	freed    chan struct{} // has a value for each run after which the lock was given back

	mu     sync.Mutex        // protects what follows
	runs   map[string]int    // how often the job of a time was run to its end
	ledger map[string]string // the machine that recorded the job of a time as done
}

// machine is one of them, with a client of its own.
type machine struct {
	name   string
	client *redlock.Client
	late   time.Duration
	fleet  *fleet
}

// plan is what a machine does at a scheduled time.
type plan func(ctx context.Context, m *machine, scheduled string) error

// at runs the plan on all machines, as at the scheduled time.
func (f *fleet) at(ctx context.Context, scheduled, title string, do plan) error {
	f.demo.Say("\n%s, with %s:", scheduled, title)
	f.runs, f.ledger = map[string]int{}, map[string]string{}
	f.freed = make(chan struct{}, len(f.machines))
	all, ctx := demo.NewGroup(ctx)
	for _, m := range f.machines {
		all.Go(func() error {
			time.Sleep(m.late)
			return do(ctx, m, scheduled)
		})
	}
	err := all.Wait()
	f.demo.Say("  The job of %s was run %d×.", scheduled, f.runs[scheduled])
	return err
}

// lockAlone runs the job if no other machine runs it now.
func lockAlone(ctx context.Context, m *machine, scheduled string) error {
	return tryOnce(ctx, m, scheduled)
}

// lockThatRests is lockAlone with a lock that stays taken for longer than the clocks differ.
func lockThatRests(ctx context.Context, m *machine, scheduled string) error {
	return tryOnce(ctx, m, scheduled, redlock.WithMinHold(ttl))
}

// tryOnce runs the job if the lock is free. The late machine asks when the first one has run it.
func tryOnce(ctx context.Context, m *machine, scheduled string, opts ...redlock.LockOption) error {
	if m.late > 0 {
		select {
		case <-m.fleet.freed:
		case <-time.After(patience):
		}
	}
	lease, err := m.client.Mutex("report:"+scheduled, opts...).TryLock(ctx)
	if errors.Is(err, redlock.ErrHeld) {
		return nil // another machine runs it, or has run it just now
	}
	if err != nil {
		return err
	}
	m.runJob(scheduled)
	defer func() { m.fleet.freed <- struct{}{} }()
	return lease.Unlock(ctx)
}

// lockAndLedger runs the job unless it is done. A machine that finds the lock held waits: the
// holder may die.
func lockAndLedger(ctx context.Context, m *machine, scheduled string) error {
	return m.client.Mutex("report:"+scheduled).Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
		if other := m.fleet.doneBy(scheduled); other != "" {
			m.fleet.demo.Say("  %s finds it done by %s.", m.name, other)
			return nil
		}
		m.runJob(scheduled)
		m.fleet.record(scheduled, m.name)
		return nil
	})
}

// lockAndLedgerWithACrash is the same, but the first machine to get the lock dies. A dead
// process neither renews nor releases: the plan simulates it with a lease without renewals
// that is not released.
func lockAndLedgerWithACrash(ctx context.Context, m *machine, scheduled string) error {
	if m != m.fleet.machines[1] {
		time.Sleep(lateness / 3) // so that it is always the same one that dies
		return lockAndLedger(ctx, m, scheduled)
	}
	if _, err := m.client.Mutex("report:"+scheduled, redlock.WithoutRenewal()).Lock(ctx); err != nil {
		return err
	}
	m.fleet.demo.Say("  %s begins, and loses power. The others wait.", m.name)
	return nil
}

func (m *machine) runJob(scheduled string) {
	m.fleet.demo.Say("  %s runs the job.", m.name)
	time.Sleep(work)
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	m.fleet.runs[scheduled]++
}

func (f *fleet) doneBy(scheduled string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ledger[scheduled]
}

func (f *fleet) record(scheduled, machine string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ledger[scheduled] = machine
}
