package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	fewWaiters   = 16
	manyWaiters  = 1000
	crowdClients = 8 // that a crowd of waiters is spread over
	gatherMany   = 2 * time.Second
)

// crowdCost is what a crowd of waiters sends while the lock goes round among
// them.
type crowdCost struct {
	waiters   int
	clients   int
	handovers int
	commands  int // at the server that got the most
	laps      *laps
}

func (c *crowdCost) perHandover() float64 { return float64(c.commands) / float64(c.handovers) }

// idleCost is what a crowd of waiters sends, with the holder's renewals, while
// the lock is held.
type idleCost struct {
	waiters  int
	clients  int
	elapsed  time.Duration
	commands int // at the server that got the most
}

func (c *idleCost) perSecond() float64 { return float64(c.commands) / c.elapsed.Seconds() }

// openClients opens so many clients of this library, each with connections of
// its own.
func openClients(addrs []string, count int) ([]opened, error) {
	return openAll(slices.Repeat([]contender{redlockUnguarded}, count), addrs)
}

// clientsOf is how many clients so many waiters are spread over: a few have one
// each.
func clientsOf(waiters int) int {
	if waiters <= fewWaiters {
		return waiters
	}
	return crowdClients
}

// countCommands counts from the moment when the lock begins to go round: that
// the waiters come and go is not a hand-over's cost.
func (pl *contentionPlan) countCommands(ctx context.Context, s *servers, waiters int) (*crowdCost, error) {
	cost := &crowdCost{waiters: waiters, clients: clientsOf(waiters)}
	var err error
	cost.laps, err = withCrowd(ctx, s.addrs, cost.clients, waiters, func(r *relay) error {
		m, err := newMeter(s)
		if err != nil {
			return err
		}
		cost.commands, err = m.during(func() error {
			if err := r.begin(ctx); err != nil {
				return err
			}
			return pause(ctx, pl.crowd)
		})
		cost.handovers = r.handovers()
		return err
	})
	if err == nil && cost.handovers == 0 {
		err = fmt.Errorf("nothing was handed over: %w", cost.laps.failure)
	}
	return cost, err
}

// countIdle counts while the crowd waits and the lock is not released.
func (pl *contentionPlan) countIdle(ctx context.Context, s *servers) (*idleCost, error) {
	cost := &idleCost{waiters: pl.idlers, clients: clientsOf(pl.idlers), elapsed: pl.idle}
	_, err := withCrowd(ctx, s.addrs, cost.clients, pl.idlers, func(*relay) error {
		m, err := newMeter(s)
		if err != nil {
			return err
		}
		cost.commands, err = m.during(func() error { return pause(ctx, pl.idle) })
		return err
	})
	return cost, err
}

// withCrowd calls work once a crowd waits for a lock that is held, and sends the
// crowd home after it.
func withCrowd(ctx context.Context, addrs []string, clients, waiters int, work func(*relay) error) (*laps, error) {
	peers, err := openClients(addrs, clients)
	if err != nil {
		return nil, err
	}
	defer closeAll(peers)
	r, err := startRelay(ctx, peers, waiters)
	if err != nil {
		return nil, err
	}
	if err = pause(ctx, gatherMany); err == nil {
		err = work(r)
	}
	l, ended := r.stop(ctx)
	return l, errors.Join(err, ended)
}
