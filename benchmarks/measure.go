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

// sample is what one peer did in one round.
type sample struct {
	pairs       int // lock+unlock, both without error
	failures    int
	failure     error // one of them
	elapsed     time.Duration
	lock        histogram
	unlock      histogram
	cpu         time.Duration // of this process, not of the servers
	serverCPU   time.Duration // of all servers
	allocations uint64
	bytes       uint64 // allocated
}

func (s *sample) pairsPerSecond() float64   { return float64(s.pairs) / s.elapsed.Seconds() }
func (s *sample) cpuPerPair() float64       { return float64(s.cpu) / float64(s.pairs) }       // ns
func (s *sample) serverCPUPerPair() float64 { return float64(s.serverCPU) / float64(s.pairs) } // ns
func (s *sample) allocsPerPair() float64    { return float64(s.allocations) / float64(s.pairs) }
func (s *sample) bytesPerPair() float64     { return float64(s.bytes) / float64(s.pairs) }
func (s *sample) lockQ(q float64) float64   { return float64(s.lock.quantile(q)) }   // ns
func (s *sample) unlockQ(q float64) float64 { return float64(s.unlock.quantile(q)) } // ns

// roundNumber keeps the names of all rounds apart: what a peer may have left on
// a node does not hinder its next round.
var roundNumber atomic.Int64

// crew are the goroutines of one round, made before it is measured.
type crew []*worker

// worker locks and unlocks its own names, in turn.
type worker struct {
	names        [namesEach]string
	pairs        int
	failures     int
	failure      error
	lock, unlock histogram
}

func newCrew(goroutines int) crew {
	round := roundNumber.Add(1)
	c := make(crew, goroutines)
	for i := range c {
		c[i] = &worker{}
		for j := range c[i].names {
			c[i].names[j] = fmt.Sprintf("bench/%d/%d/%d", round, i, j)
		}
	}
	return c
}

// measure drives a peer for one round with so many goroutines, after a warm-up
// that is not counted. It returns early when ctx ends.
func (pl *plan) measure(ctx context.Context, p peer, goroutines int) *sample {
	newCrew(goroutines).run(ctx, p, pl.warmUp)
	c := newCrew(goroutines)
	serverCPU := pl.servers.cpuTime()
	runtime.GC() // the garbage of the peer before is not this one's cost

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	c.run(ctx, p, pl.length)
	s := &sample{elapsed: time.Since(start), cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&after)

	s.serverCPU = pl.servers.cpuTime() - serverCPU
	s.allocations = after.Mallocs - before.Mallocs
	s.bytes = after.TotalAlloc - before.TotalAlloc
	for _, w := range c {
		s.pairs += w.pairs
		s.failures += w.failures
		if w.failure != nil {
			s.failure = w.failure
		}
		s.lock.merge(&w.lock)
		s.unlock.merge(&w.unlock)
	}
	return s
}

// run lets all workers work until the time is over; each ends its last pair.
func (c crew) run(ctx context.Context, p peer, length time.Duration) {
	deadline := time.Now().Add(length)
	var group sync.WaitGroup
	for _, w := range c {
		group.Go(func() { w.run(ctx, p, deadline) })
	}
	group.Wait()
}

func (w *worker) run(ctx context.Context, p peer, deadline time.Time) {
	for i := 0; ctx.Err() == nil; i++ {
		begin := time.Now()
		if begin.After(deadline) {
			return
		}
		if err := w.pair(ctx, p, w.names[i%namesEach], begin); err != nil && ctx.Err() == nil {
			w.failures++
			w.failure = err
		}
	}
}

func (w *worker) pair(ctx context.Context, p peer, name string, begin time.Time) error {
	lock, err := p.lock(ctx, name)
	if err != nil {
		return err
	}
	granted := time.Now()
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	w.lock.add(granted.Sub(begin))
	w.unlock.add(time.Since(granted))
	w.pairs++
	return nil
}
