package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

// story plays and prints the steps that both versions share.
type story struct {
	demo  *demo.Demo
	books *books

	alice, bob *redlock.Mutex
}

// update writes a balance under a token.
type update func(ctx context.Context, balance, token int64) error

func (s *story) title(title, statement string) {
	s.demo.Say("\n%s\n    %s\n", title, statement)
}

func (s *story) say(name, format string, args ...any) {
	s.demo.Say("  %-5s  %s", name, fmt.Sprintf(format, args...))
}

func (s *story) conclude(ctx context.Context, moral string) error {
	balance, err := s.books.read(ctx)
	if err != nil {
		return err
	}
	verdict := "right"
	if balance != right {
		verdict = "WRONG"
	}
	s.demo.Say("\n  The balance is %d, which is %s. %s", balance, verdict, moral)
	return nil
}

// pausedHolder lets Alice lock, read, check her lease, and be stopped just before she writes,
// until her lease has ended and Bob has done his work. It returns Alice's lease, and the
// balance that she has read.
func (s *story) pausedHolder(ctx context.Context, write update) (*redlock.Lease, int64, error) {
	lease, balance, err := s.begin(ctx, "Alice", s.alice)
	if err != nil {
		return nil, 0, err
	}
	if !lease.Valid() {
		return nil, 0, errors.New("this machine is too slow for the story: Alice's lease is over already")
	}
	s.say("Alice", "asks whether her lease is valid: it is, for %v", lease.Remaining().Round(time.Millisecond))
	s.say("Alice", "is stopped: a garbage collection, a full disk, a machine that is moved")

	// Bob's Lock waits until Alice's keys have expired, which is later than her
	// own validity: they never hold at the same time.
	bobs, found, err := s.begin(ctx, "Bob", s.bob)
	if err != nil {
		return nil, 0, err
	}
	if lease.Valid() {
		return nil, 0, errors.New("the lock has two holders")
	}
	return lease, balance, s.finish(ctx, "Bob", bobs, found, -withdraw, write)
}

// begin locks and reads.
func (s *story) begin(ctx context.Context, name string, mutex *redlock.Mutex) (*redlock.Lease, int64, error) {
	start := time.Now()
	lease, err := mutex.Lock(ctx)
	if err != nil {
		return nil, 0, err
	}
	waited := ""
	if took := time.Since(start).Round(time.Millisecond); took >= 10*time.Millisecond {
		waited = fmt.Sprintf(" after %v", took)
	}
	s.say(name, "locks%s, with the token %d", waited, lease.Token())
	balance, err := s.books.read(ctx)
	s.say(name, "reads %d", balance)
	return lease, balance, err
}

// finish writes what was read, changed, and unlocks.
func (s *story) finish(ctx context.Context, name string, lease *redlock.Lease, balance, change int64, write update) error {
	if err := write(ctx, balance+change, lease.Token()); err != nil {
		return err
	}
	s.say(name, "writes %s, and unlocks", sum(balance, change))
	return lease.Unlock(ctx)
}

// sum is a change and its result, in words.
func sum(balance, change int64) string {
	sign := '+'
	if change < 0 {
		sign = '-'
	}
	return fmt.Sprintf("%d %c %d = %d", balance, sign, max(change, -change), balance+change)
}
