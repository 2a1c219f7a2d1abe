package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// contentionPlan says what the workload measures in which many want one lock.
type contentionPlan struct {
	rounds int           // of the hand-over, of each peer
	length time.Duration // of such a round
	single time.Duration // of the uncontended locks beside each round
	fair   time.Duration // for how long equal clients are counted
	crowds []int         // numbers of waiters whose commands are counted
	crowd  time.Duration // for how long they are
	idlers int           // waiters for a lock that is held for long
	idle   time.Duration // for how long it is
}

// fullContention is what the report shows.
var fullContention = contentionPlan{
	rounds: 5,
	length: 700 * time.Millisecond,
	single: 200 * time.Millisecond,
	fair:   5 * time.Second,
	crowds: []int{2, fewWaiters, 128, manyWaiters},
	crowd:  1500 * time.Millisecond,
	idlers: manyWaiters,
	idle:   10 * time.Second,
}

// contention is what became of the plan.
type contention struct {
	handovers handoverRounds
	fair      *laps
	crowds    []crowdCost
	idle      *idleCost
}

// ours are all laps of this library.
func (c *contention) ours() []*laps {
	all := []*laps{c.fair}
	for _, round := range c.handovers {
		all = append(all, round.laps[redlockUnguarded.name])
	}
	for _, crowd := range c.crowds {
		all = append(all, crowd.laps)
	}
	return all
}

// run measures one part after the other: no two at once.
func (pl *contentionPlan) run(ctx context.Context, s *servers, progress io.Writer) (*contention, error) {
	c := &contention{}
	var err error
	if c.handovers, err = pl.measureHandovers(ctx, s.addrs, progress); err != nil {
		return nil, fmt.Errorf("hand-over: %w", err)
	}
	fmt.Fprintf(progress, "fairness among %d clients\n", relayClients)
	if c.fair, err = pl.measureFairness(ctx, s.addrs); err != nil {
		return nil, fmt.Errorf("fairness: %w", err)
	}
	for _, waiters := range pl.crowds {
		fmt.Fprintf(progress, "commands with %d waiters\n", waiters)
		cost, err := pl.countCommands(ctx, s, waiters)
		if err != nil {
			return nil, fmt.Errorf("commands with %d waiters: %w", waiters, err)
		}
		c.crowds = append(c.crowds, *cost)
	}
	fmt.Fprintf(progress, "idle waiting of %d\n", pl.idlers)
	if c.idle, err = pl.countIdle(ctx, s); err != nil {
		return nil, fmt.Errorf("idle waiting: %w", err)
	}
	return c, nil
}

// measureFairness lets equal clients of this library compete.
func (pl *contentionPlan) measureFairness(ctx context.Context, addrs []string) (*laps, error) {
	clients, err := openClients(addrs, relayClients)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	return runRelay(ctx, clients, relayClients, gatherFew, pl.fair)
}
