// Fencing shows what happens when the holder of a lock is paused for longer than its lease
// lasts: first without a fence and then with one, over the accounts of a real SQL database.
// Then it shows what the fence needs in addition where readers share the lock.
//
// The database (SQLite) and the three nodes are embedded in this program, so
// nothing has to be installed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/redlocktest"
)

// ttl is short, so that the story is short too; it is also how long new nodes wait before
// they vote for the first time. The node timeout is longer than necessary, for machines that
// are busy.
const (
	ttl         = time.Second
	nodeTimeout = 400 * time.Millisecond
)

// What should be left on the account, when both have done their work.
const (
	opening  = 100
	deposit  = 50 // Alice's
	withdraw = 30 // Bob's
	right    = opening + deposit - withdraw
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	nodes, err := redlocktest.New(3)
	if err != nil {
		return err
	}
	defer nodes.Close()
	books, err := openBooks(ctx)
	if err != nil {
		return err
	}
	defer books.close()

	// Alice's process will be stopped, and a stopped process does not renew.
	alice, err := open(nodes, "alice", redlock.WithoutRenewal())
	if err != nil {
		return err
	}
	defer alice.Close()
	bob, err := open(nodes, "bob")
	if err != nil {
		return err
	}
	defer bob.Close()

	fmt.Fprintf(out, "An account with a balance of %d, in an SQL database. Alice deposits %d, Bob withdraws %d.\n"+
		"Each reads the balance and writes the new one, under the lock %q: %d must be left.\n"+
		"A lease lasts for %v unless renewed. The nodes are new: as long as that they do not vote.\n",
		opening, deposit, withdraw, lockName, right, ttl)
	s := &story{out: out, books: books, alice: alice.Mutex(lockName), bob: bob.Mutex(lockName)}
	if err := s.withoutFence(ctx); err != nil {
		return err
	}
	if err := s.withFence(ctx); err != nil {
		return err
	}
	return besideReaders(ctx, out, books)
}

func open(nodes *redlocktest.Nodes, label string, opts ...redlock.ClientOption) (*redlock.Client, error) {
	return redlock.Open(nodes.URLs(), append(opts,
		redlock.WithTTL(ttl), redlock.WithNodeTimeout(nodeTimeout),
		redlock.WithOwnerLabel(label), redlock.WithLogger(nil))...)
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
