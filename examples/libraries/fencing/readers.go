package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

const (
	sharedAccount = 8
	sharedLock    = "account-8"
)

// The tokens of these stories are written out. A program takes them from its leases. A
// reader's token is not smaller than that of any writer before it, and may be equal; a
// writer's token is greater than all before it.
const (
	alices = 41 // an exclusive lease
	bobs   = 41 // a shared lease, after Alice's has ended
	carols = 42 // an exclusive lease, after Bob's has ended
)

// besideReaders tells the stories of a lock that readers share.
func besideReaders(ctx context.Context, d *demo.Demo, books *books) error {
	books, err := books.openAccount(ctx, sharedAccount, sharedLock)
	if err != nil {
		return err
	}
	s := &story{demo: d, books: books}
	if err := s.oneNumber(ctx); err != nil {
		return err
	}
	return s.twoNumbers(ctx)
}

// oneNumber is the story where the database keeps the tokens of writers alone.
func (s *story) oneNumber(ctx context.Context) error {
	s.title("Readers, beside a fence of one number", fencedUpdate)
	if err := s.books.reset(ctx); err != nil {
		return err
	}
	s.stopAlice()
	first, err := s.books.read(ctx)
	if err != nil {
		return err
	}
	s.letBobRead(first)
	if err := s.books.writeFenced(ctx, opening+deposit, alices); err != nil {
		return err
	}
	s.say("Alice", "wakes, and writes %s", sum(opening, deposit))
	second, err := s.books.read(ctx)
	if err != nil {
		return err
	}
	s.say("Bob", "reads %d, under the same lease", second)
	s.concludeReads(first, second, "No token above Alice's had written.")
	return nil
}

// twoNumbers is the same story, where the database keeps the tokens of readers as well.
func (s *story) twoNumbers(ctx context.Context) error {
	s.title("Readers, beside a fence of two numbers", updateBesideReaders+"\n    "+registerRead)
	if err := s.books.reset(ctx); err != nil {
		return err
	}
	s.stopAlice()
	first, err := s.books.readRegistered(ctx, bobs)
	if err != nil {
		return err
	}
	s.letBobRead(first)
	if err := expectStale(s.books.writeBesideReaders(ctx, opening+deposit, alices)); err != nil {
		return err
	}
	s.say("Alice", "wakes, writes %s, and is refused, since a later reader has read", sum(opening, deposit))
	second, err := s.books.readRegistered(ctx, bobs)
	if err != nil {
		return err
	}
	s.say("Bob", "reads %d, under the same lease, and is stopped until it has ended", second)

	if err := s.books.writeBesideReaders(ctx, opening-withdraw, carols); err != nil {
		return err
	}
	s.say("Carol", "locks alone, under token %d, and writes %s", carols, sum(opening, -withdraw))
	_, err = s.books.readRegistered(ctx, bobs)
	if err := expectStale(err); err != nil {
		return err
	}
	s.say("Bob", "wakes, reads, and is refused: he comes too late")
	s.concludeReads(first, second, "The late writer and the late reader were refused.")
	return nil
}

func (s *story) stopAlice() {
	s.say("Alice", "locks alone, under token %d, and is stopped before she writes, until her lease has ended", alices)
}

func (s *story) letBobRead(balance int64) {
	s.say("Bob", "locks to read, under token %d as well, and reads %d", bobs, balance)
}

// expectStale returns an error if an access that came too late was not refused.
func expectStale(err error) error {
	if !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("an access that came too late was not refused: %w", err)
	}
	return nil
}

func (s *story) concludeReads(first, second int64, moral string) {
	verdict := "right"
	if first != second {
		verdict = "WRONG"
	}
	s.demo.Say("\n  Bob read %d and %d under one lease, which is %s. %s", first, second, verdict, moral)
}
