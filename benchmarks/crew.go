package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// namesEach is how many names a goroutine goes round. With one name alone, a
// peer that returns before its last node has answered would meet its own
// leftover.
const namesEach = 64

// stragglers is how long after its end a round waits for calls that are under way; a call
// that has not returned by then counts as hung.
const stragglers = 2 * time.Second

// load is the work of a crew.
type load struct {
	goroutines int
	warmUp     time.Duration
	length     time.Duration
	renew      bool          // each lock is renewed once
	hold       time.Duration // between lock and unlock
	limit      time.Duration // for one lock or unlock, by its context; 0: none
}

// crew are the goroutines of one round, made before it is measured.
type crew []*worker

// worker locks and unlocks its own names, in turn.
type worker struct {
	names [namesEach]string
	began atomic.Int64 // when the call that is under way was; 0: none

	mu sync.Mutex // protects tally: a worker that hangs goes on after the round
	tally
}

// tally is the results of a worker, or of all.
type tally struct {
	pairs    int // lock+unlock, both without error
	failures int
	hung     int // calls that did not return
	failure  error
	lock     histogram
	renewal  histogram
	unlock   histogram
}

func (t *tally) merge(o *tally) {
	t.pairs += o.pairs
	t.failures += o.failures
	t.hung += o.hung
	if o.failure != nil {
		t.failure = o.failure
	}
	t.lock.merge(&o.lock)
	t.renewal.merge(&o.renewal)
	t.unlock.merge(&o.unlock)
}

// crewNumber keeps the names of all rounds apart: what a peer may have left on a
// node does not hinder its next round.
var crewNumber atomic.Int64

func newCrew(goroutines int) crew {
	number := crewNumber.Add(1)
	c := make(crew, goroutines)
	for i := range c {
		c[i] = &worker{}
		for j := range c[i].names {
			c[i].names[j] = fmt.Sprintf("bench/%d/%d/%d", number, i, j)
		}
	}
	return c
}

// drive lets so many goroutines lock and unlock for one round, after a warm-up
// that is not counted. It returns early when ctx ends, and late by stragglers at
// most when calls hang.
func (b *bench) drive(ctx context.Context, p peer, l load) (int, figures, error) {
	newCrew(l.goroutines).run(ctx, p, load{goroutines: l.goroutines, length: l.warmUp, limit: l.limit})
	c := newCrew(l.goroutines)
	serverCPU := b.servers.cpuTime()
	runtime.GC() // the garbage of the peer before is not this one's cost

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	elapsed := c.run(ctx, p, l)
	spent := cpuTime() - cpu
	runtime.ReadMemStats(&after)
	serverCPU = b.servers.cpuTime() - serverCPU

	t := c.sum(start)
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	f := t.figures(elapsed)
	if t.pairs == 0 {
		return 0, f, fmt.Errorf("%w: %d calls failed (%v), %d hung", errNothing, t.failures, t.failure, t.hung)
	}
	pairs := float64(t.pairs)
	f["cpu-ns/op"] = float64(spent) / pairs
	f["server-cpu-ns/op"] = float64(serverCPU) / pairs
	f["allocs/op"] = float64(after.Mallocs-before.Mallocs) / pairs
	f["B/op"] = float64(after.TotalAlloc-before.TotalAlloc) / pairs
	return t.pairs, f, nil
}

// figures are those that need nothing but the tally.
func (t *tally) figures(elapsed time.Duration) figures {
	f := figures{
		"pairs/s":  float64(t.pairs) / elapsed.Seconds(),
		"failures": float64(t.failures),
		"hung":     float64(t.hung),
	}
	if t.pairs > 0 {
		f["ns/op"] = float64(elapsed) / float64(t.pairs)
	}
	for name, h := range map[string]*histogram{"lock": &t.lock, "renew": &t.renewal, "unlock": &t.unlock} {
		if h.total > 0 {
			f[name+"-p50-ns"] = float64(h.quantile(0.50))
			f[name+"-p99-ns"] = float64(h.quantile(0.99))
			f[name+"-max-ns"] = float64(h.quantile(1))
		}
	}
	return f
}

// run lets all workers work until the time is over, and awaits those that end
// their last pair.
func (c crew) run(ctx context.Context, p peer, l load) time.Duration {
	start := time.Now()
	deadline := start.Add(l.length)
	var group sync.WaitGroup
	for _, w := range c {
		group.Go(func() { w.run(ctx, p, l, deadline) })
	}
	await(&group, l.length+l.limit+stragglers)
	return time.Since(start)
}

// sum adds up what the workers did. A call that is still under way counts among
// the latencies of Lock with the time it has taken until now.
func (c crew) sum(start time.Time) *tally {
	all := &tally{}
	for _, w := range c {
		w.mu.Lock()
		all.merge(&w.tally)
		w.mu.Unlock()
		if began := w.began.Load(); began != 0 {
			all.hung++
			all.lock.add(time.Since(start) - time.Duration(began))
		}
	}
	return all
}

func (w *worker) run(ctx context.Context, p peer, l load, deadline time.Time) {
	start := deadline.Add(-l.length)
	for i := 0; ctx.Err() == nil; i++ {
		begin := time.Now()
		if begin.After(deadline) {
			return
		}
		w.began.Store(max(int64(begin.Sub(start)), 1))
		w.pair(ctx, p, l, w.names[i%namesEach], begin)
		w.began.Store(0)
	}
}

// none is the latency of what did not happen.
const none time.Duration = -1

// pair locks and unlocks once, and records the result.
func (w *worker) pair(ctx context.Context, p peer, l load, name string, begin time.Time) {
	locking, cancel := bounded(ctx, l.limit)
	lock, err := p.lock(locking, name)
	cancel()
	granted := time.Now()
	if err != nil {
		w.record(ctx, err, granted.Sub(begin), none, none)
		return
	}
	renewed, renewal := granted, none
	if e, ok := lock.(extender); ok && l.renew {
		err = e.Extend(ctx)
		renewed = time.Now()
		renewal = renewed.Sub(granted)
	}
	if l.hold > 0 {
		time.Sleep(l.hold)
		renewed = time.Now()
	}
	unlocking, cancel := bounded(ctx, l.limit)
	failed := lock.Unlock(unlocking)
	cancel()
	if err == nil {
		err = failed
	}
	w.record(ctx, err, granted.Sub(begin), renewal, time.Since(renewed))
}

// record records a pair, unless the run was interrupted. A failed call has a latency too:
// the caller has waited for it.
func (w *worker) record(ctx context.Context, err error, lock, renewal, unlock time.Duration) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lock.add(lock)
	if renewal != none {
		w.renewal.add(renewal)
	}
	if unlock != none {
		w.unlock.add(unlock)
	}
	if err != nil {
		w.failures++
		w.failure = err
		return
	}
	w.pairs++
}

// bounded is ctx, ending after d unless that is 0.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// pause returns after d, or with ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
