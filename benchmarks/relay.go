package main

import (
	"context"
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
	name   string
	peers  []*opened
	first  held // what all runners wait for until the relay is begun; nil from then on
	cancel context.CancelFunc
	group  sync.WaitGroup

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

// startRelay takes the lock and lets so many runners ask for it, until begin
// hands it to the first of them. After that, or without it, stop must be called.
func startRelay(ctx context.Context, peers []*opened, runners int) (*relay, error) {
	r := &relay{name: fmt.Sprintf("relay/%d", crewNumber.Add(1)), peers: peers, holders: 1, holder: -1, running: runners}
	r.laps.grants = make([]int, runners)
	var err error
	if r.first, err = peers[0].peer.lock(ctx, r.name); err != nil {
		return nil, err
	}
	// Not a deadline: a peer may cut a lock's time to live down to it.
	running, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	for i := range runners {
		r.group.Go(func() { r.run(running, i) })
	}
	return r, nil
}

// begin starts the time and releases the lock.
func (r *relay) begin(ctx context.Context) error {
	first := r.first
	r.first = nil
	r.releasing()
	return first.Unlock(ctx)
}

// stop lets all runners give up, and returns when they have, or when some hang.
func (r *relay) stop(ctx context.Context) (*laps, error) {
	r.cancel()
	ended := make(chan struct{})
	go func() { // ends with the last runner
		r.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(giveUp):
	}
	var err error
	if r.first != nil {
		err = r.first.Unlock(context.WithoutCancel(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.laps // those that hang change the relay's own
	l.grants = slices.Clone(l.grants)
	l.hung = r.running
	return &l, err
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

// runRelay lets the runners gather for a while, then run, and returns the results. The time
// ends before the runners that still wait give up.
func runRelay(ctx context.Context, peers []*opened, runners int, gather, length time.Duration) (*laps, error) {
	r, err := startRelay(ctx, peers, runners)
	if err != nil {
		return nil, err
	}
	err = pause(ctx, gather)
	start := time.Now()
	if err == nil {
		err = r.begin(ctx)
	}
	if err == nil {
		err = pause(ctx, length)
	}
	elapsed := time.Since(start)
	l, ended := r.stop(ctx)
	l.elapsed = elapsed
	if err == nil {
		err = ended
	}
	if err == nil && l.handoff.total == 0 {
		err = fmt.Errorf("nothing was handed off among %d (last failure: %v)", runners, l.failure)
	}
	return l, err
}

func (l *laps) handoffsPerSecond() float64 { return float64(l.handoff.total) / l.elapsed.Seconds() }

// keptShare returns the share of the hand-offs that went back to the runner that released.
func (l *laps) keptShare() float64 {
	return 1 - float64(l.passed.total)/float64(l.handoff.total)
}

// leastShare and mostShare return the least and the greatest number of grants of a runner,
// relative to the mean.
func (l *laps) leastShare() float64 { return l.shareOf(slices.Min(l.grants)) }
func (l *laps) mostShare() float64  { return l.shareOf(slices.Max(l.grants)) }

func (l *laps) shareOf(grants int) float64 {
	return float64(grants*len(l.grants)) / float64(l.handoff.total)
}
