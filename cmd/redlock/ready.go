package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/system"
)

// readyLook is the pause between two looks at the nodes while run waits until they vote.
const readyLook = 20 * time.Millisecond

var (
	errNotReady = errors.New("the time of --ready is over") // ends the wait
	errNoAnswer = errors.New("no answer yet")               // the node has shown no other fault
)

// awaitReady waits, for as long as --ready allows, until a majority of the nodes votes. It never waits for a holder. A
// signal ends the wait.
func (r *runner) awaitReady(client *redlock.Client) error {
	if r.flags.ready == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	bounded, stop := context.WithTimeoutCause(ctx, r.flags.ready, errNotReady)
	defer stop()
	var beside sync.WaitGroup
	over := make(chan struct{})
	beside.Go(func() { r.cancelOnSignal(over, cancel) })
	unseen, err := awaitVotes(bounded, client)
	close(over)
	beside.Wait()

	if err := interruption(ctx, nil, "waiting until a majority of the nodes votes"); err != nil {
		return err
	}
	if err != nil {
		return r.notReady(client, err)
	}
	// Other processes may have reached the nodes all the time, and the rest of their leases may be over.
	if hold := r.flags.minHold; hold > 0 && unseen > hold/2 {
		return &exit{code: codeNoQuorum,
			why: fmt.Errorf("no majority could be reached for %v, more than half of --min-hold (%v): "+
				"the command is not run, since another machine may have run it meanwhile",
				printable.Duration(unseen), hold)}
	}
	return nil
}

// awaitVotes waits until a majority of the nodes votes, or ctx ends. unseen is the time in which other processes may
// have got locks: since the call began, or since so many nodes were seen to wait that no process could.
func awaitVotes(ctx context.Context, client *redlock.Client) (unseen time.Duration, err error) {
	ready := make(chan error, 1)
	go func() { ready <- client.WaitReady(ctx) }() // ends before this function does
	look := time.NewTicker(readyLook)
	defer look.Stop()
	since := system.Now()
	for {
		select {
		case err := <-ready:
			return system.Now() - since, err
		case <-look.C:
			if majorityWaits(client.Stats().Nodes) {
				since = system.Now()
			}
		}
	}
}

// majorityWaits reports whether so many nodes have lost their memory, and wait, that the others are no majority.
func majorityWaits(nodes []redlock.NodeStats) bool {
	others := 0
	for _, n := range nodes {
		if n.State != "quarantined" {
			others++
		}
	}
	return 2*others <= len(nodes)
}

// notReady returns why run gives up: how each node stands, and what to do.
func (r *runner) notReady(client *redlock.Client, err error) error {
	if !errors.Is(err, errNotReady) {
		return err
	}
	var nodes []string
	for _, n := range client.Stats().Nodes {
		if n.State != "up" {
			nodes = append(nodes, fmt.Sprintf("%s: %s: %v", n.Node, n.State, cmp.Or(n.Err, errNoAnswer)))
		}
	}
	remedy := "redlock doctor says what to do"
	if q := (*redlock.QuorumError)(nil); errors.As(err, &q) && q.RetryAfter > 0 {
		remedy = fmt.Sprintf("they vote in %v: give --ready more time than the longest ttl of all "+
			"clients, and than 20s", printable.Duration(q.RetryAfter))
	}
	return &exit{code: codeNoQuorum,
		why: fmt.Errorf("no majority of the nodes votes after %v (--ready), and the command is not run: %s",
			r.flags.ready, strings.Join(append(nodes, remedy), "; "))}
}
