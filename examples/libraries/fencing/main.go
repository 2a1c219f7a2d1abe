// Fencing shows what happens when the holder of a lock is paused for longer than its lease
// lasts: first without a fence and then with one, over the accounts of a real SQL database.
// Then it shows what the fence needs in addition where readers share the lock.
//
// The database (SQLite) and the nodes are embedded in this program, so
// nothing has to be installed.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

// ttl is short, so that the story is short too.
const ttl = 2 * time.Second

// What should be left on the account, when both have done their work.
const (
	opening  = 100
	deposit  = 50 // Alice's
	withdraw = 30 // Bob's
	right    = opening + deposit - withdraw
)

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	books, err := openBooks(ctx)
	if err != nil {
		return err
	}
	defer books.close()

	// Alice's process will be stopped, and a stopped process does not renew.
	alice, err := d.Open(ctx, "alice", redlock.WithTTL(ttl), redlock.WithoutRenewal())
	if err != nil {
		return err
	}
	defer alice.Close()
	bob, err := d.Open(ctx, "bob", redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer bob.Close()

	d.Say("An account with a balance of %d, in an SQL database. Alice deposits %d, Bob withdraws %d.\n"+
		"Each reads the balance and writes the new one, under the lock %q: %d must be left.\n"+
		"A lease lasts for %v unless renewed.",
		opening, deposit, withdraw, lockName, right, ttl)
	s := &story{demo: d, books: books, alice: alice.Mutex(lockName), bob: bob.Mutex(lockName)}
	if err := s.withoutFence(ctx); err != nil {
		return err
	}
	if err := s.withFence(ctx); err != nil {
		return err
	}
	return besideReaders(ctx, d, books)
}

// withoutFence is the story where the lock alone protects the account.
func (s *story) withoutFence(ctx context.Context) error {
	s.title("Without a fence", plainUpdate)
	if err := s.books.reset(ctx); err != nil {
		return err
	}
	lease, balance, err := s.pausedHolder(ctx, s.books.write)
	if err != nil {
		return err
	}
	if err := s.books.write(ctx, balance+deposit, lease.Token()); err != nil {
		return err
	}
	s.say("Alice", "wakes after her check, and writes %s", sum(balance, deposit))
	return s.conclude(ctx, "Bob's withdrawal is lost, without an error.")
}

// withFence is the same story, where the database compares tokens.
func (s *story) withFence(ctx context.Context) error {
	s.title("With a fence", fencedUpdate)
	if err := s.books.reset(ctx); err != nil {
		return err
	}
	lease, balance, err := s.pausedHolder(ctx, s.books.writeFenced)
	if err != nil {
		return err
	}
	err = s.books.writeFenced(ctx, balance+deposit, lease.Token())
	if !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("a write that came too late was not refused: %w", err)
	}
	s.say("Alice", "wakes after her check, writes %s, and is refused:", sum(balance, deposit))
	s.say("", "%v", err)

	lease, balance, err = s.begin(ctx, "Alice", s.alice)
	if err != nil {
		return err
	}
	if err := s.finish(ctx, "Alice", lease, balance, deposit, s.books.writeFenced); err != nil {
		return err
	}
	return s.conclude(ctx, "Her late write was refused, and she repeats it with the present balance.")
}
