// Quickstart shows one lock over five nodes: granted, refused, released, and granted again
// with two of the nodes down.
//
// The nodes are embedded in this program, so nothing has to be installed. They
// are not Redis; with real servers the client is opened the same way:
//
//	redlock.Open([]string{"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", ...})
package main

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/redlocktest"
)

const lockName = "orders"

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	nodes, err := redlocktest.New(5)
	if err != nil {
		return err
	}
	defer nodes.Close()
	alice, err := open(nodes, "alice")
	if err != nil {
		return err
	}
	defer alice.Close()
	bob, err := open(nodes, "bob")
	if err != nil {
		return err
	}
	defer bob.Close()

	board := &board{out: d.Out, nodes: nodes}
	d.Say("Five embedded nodes play five independent Redis servers.\n" +
		"A client that gets the votes of three holds the lock.")
	return play(ctx, board, alice.Mutex(lockName), bob.Mutex(lockName))
}

// open makes a client. Embedded nodes are new in every run, and keep their
// memory when they are stopped: they need not wait for leases that they may have
// forgotten, as real servers must (which is what the guard is for).
func open(nodes *redlocktest.Nodes, label string) (*redlock.Client, error) {
	return redlock.Open(nodes.URLs(), redlock.WithOwnerLabel(label), redlock.WithRestartGuard(0),
		redlock.WithNodeTimeout(4*time.Second)) // they have this one process, which others may keep waiting
}

// play is the story.
func play(ctx context.Context, board *board, alice, bob *redlock.Mutex) error {
	board.title("Alice locks %q", lockName)
	lease, err := alice.Lock(ctx)
	if err != nil {
		return err
	}
	board.votesFor(lease.Owner())
	board.say("The lock is hers. It is valid for another %v.", round(lease.Remaining()))

	board.title("Bob tries to take it at the same time")
	if _, err = bob.TryLock(ctx); err == nil {
		return errors.New("the lock has two holders")
	}
	var held *redlock.HeldError
	if !errors.As(err, &held) {
		return err
	}
	board.say("He is refused, and the error says why: it is held by\n%q for another %v.",
		held.Holder, round(held.Remaining))

	board.title("Alice unlocks")
	if err := lease.Unlock(ctx); err != nil {
		return err
	}
	board.votesFor("")

	board.title("Two nodes fail, and Bob tries again")
	board.stop(0, 3)
	lease, err = bob.TryLock(ctx)
	if err != nil {
		return err
	}
	board.votesFor(lease.Owner())
	board.say("Three of five are enough: the lock is his.")
	return lease.Unlock(ctx)
}

// round makes a duration readable.
func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
