package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// holdTime is how long each holder keeps the lock of a relay.
const holdTime = 2 * time.Millisecond

// giveUp is how long a waiter may take to return when its context ends.
const giveUp = 3 * time.Second

// relay is one lock that goes round among runners, each of which asks for it again as soon as
// it has released it. Runner i uses peer i, modulo their number.
type relay struct {
	name  string
	peers []*opened
	first held // what all runners wait for until the relay is begun; nil from then on

	mu       sync.Mutex // protects what follows
	laps     laps
	holders  int
	holder   int       // the runner that held last; -1 before the first
	running  int       // runners that have not returned
	released time.Time // when its Unlock was called
}

// laps is the results of a relay.
type laps struct {
	elapsed  time.Duration
	handoff  histogram // from the call of Unlock to the next holder's return from Lock
	passed   histogram // those of them to another runner
	grants   []int     // by runner
	overlaps int       // grants while another runner held the lock
	hung     int       // runners that did not return when their context ended
	failures int
	failure  error // one of them
}

// withRelay takes the lock, lets so many runners ask for it, and gather for a while; then it calls work. After that
// all runners give up, and it returns when they have, or when some hang. The runners that still wait give up only then.
func withRelay(
	ctx context.Context, peers []*opened, runners int, gather time.Duration, work func(*relay) error,
) (*laps, error) {
	r := &relay{name: fmt.Sprintf("relay/%d", crewNumber.Add(1)), peers: peers, holders: 1, holder: -1}
	r.running, r.laps.grants = runners, make([]int, runners)
	var err error
	if r.first, err = peers[0].peer.lock(ctx, r.name); err != nil {
		return nil, err
	}
	// Not a deadline: a peer may cut a lock's time to live down to it.
	running, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for i := range runners {
		group.Go(func() { r.run(running, i) })
	}
	if err = pause(ctx, gather); err == nil {
		err = work(r)
	}
	cancel()
	await(&group, giveUp)
	if r.first != nil {
		err = errors.Join(err, r.first.Unlock(context.WithoutCancel(ctx)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.laps // those that hang change the relay's own
	l.grants = slices.Clone(l.grants)
	l.hung = r.running
	return &l, err
}

// await returns when the group has ended, or after the limit.
func await(group *sync.WaitGroup, limit time.Duration) {
	ended := make(chan struct{})
	go func() { // ends with the last of the group
		group.Wait()
		close(ended)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// begin starts the time, releases the lock, and returns when the lock has gone round for so long.
func (r *relay) begin(ctx context.Context, length time.Duration) error {
	first := r.first
	r.first = nil
	r.releasing()
	if err := first.Unlock(ctx); err != nil {
		return err
	}
	return pause(ctx, length)
}

// returned records that a runner has returned.
func (r *relay) returned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
}

func (r *relay) run(ctx context.Context, runner int) {
	defer r.returned()
	p := r.peers[runner%len(r.peers)].peer
	for ctx.Err() == nil {
		lock, err := p.lock(ctx, r.name)
		granted := time.Now()
		if err != nil {
			if ctx.Err() == nil {
				r.failed(err)
			}
			continue
		}
		r.acquired(runner, granted)
		time.Sleep(holdTime)
		r.releasing()
		if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
			r.failed(err)
		}
	}
}

// acquired records that a runner has got the lock.
func (r *relay) acquired(runner int, granted time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := granted.Sub(r.released)
	r.laps.handoff.add(took)
	if r.holder != runner {
		r.laps.passed.add(took)
	}
	r.holder = runner
	r.laps.grants[runner]++
	if r.holders++; r.holders > 1 {
		r.laps.overlaps++
	}
}

// releasing records that the holder is about to call Unlock.
func (r *relay) releasing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders--
	r.released = time.Now()
}

func (r *relay) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.laps.failures++
	r.laps.failure = err
}

// handoffs is how often the lock has been handed off until now.
func (r *relay) handoffs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.laps.handoff.total
}

// runRelay lets the lock go round for a while, and returns the results.
func runRelay(ctx context.Context, peers []*opened, runners int, gather, length time.Duration) (*laps, error) {
	var elapsed time.Duration
	l, err := withRelay(ctx, peers, runners, gather, func(r *relay) error {
		start := time.Now()
		err := r.begin(ctx, length)
		elapsed = time.Since(start)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.elapsed = elapsed
	if l.handoff.total == 0 {
		return nil, fmt.Errorf("nothing was handed off among %d (last failure: %v)", runners, l.failure)
	}
	return l, nil
}

// leastShare and mostShare return the least and the greatest number of grants of a runner,
// relative to the mean.
func (l *laps) leastShare() float64 { return l.shareOf(slices.Min(l.grants)) }
func (l *laps) mostShare() float64  { return l.shareOf(slices.Max(l.grants)) }

func (l *laps) shareOf(grants int) float64 {
	return float64(grants*len(l.grants)) / float64(l.handoff.total)
}
