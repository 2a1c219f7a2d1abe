// Transfer moves money between accounts: workers in several processes take both accounts of a
// transfer at once.
//
//	go run ./examples/transfer
//
// A worker reads both balances, asks elsewhere whether the transfer is allowed, and writes both
// balances. Nobody else may change them meanwhile. Locks that are taken one after the other
// need an order that all programs agree on: else a worker that holds account A and waits for B
// meets one that holds B and waits for A. Client.Multi takes both or none, in any order.
//
// The bank compares the tokens of all accesses. One token serves both accounts: it is greater
// than that of every earlier lease of each of them. So a worker that was paused, and whose lease
// has ended, changes neither account.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

const (
	// ttl is how long a process that died keeps the others out.
	ttl = 5 * time.Second

	processes = 3
	workers   = 3                     // of each process
	transfers = 5                     // of each worker
	checking  = 10 * time.Millisecond // how long the check of a transfer takes
	patience  = 30 * time.Second      // of each transfer; without the locks in this time something is broken
)

// accounts are the names of the accounts, and of their locks.
var accounts = []string{"account-1", "account-2", "account-3", "account-4"}

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	b := newBank(accounts, 100)
	before := b.sum()
	all, ctx := demo.NewGroup(ctx)
	for i := range processes {
		client, err := d.Open(ctx, fmt.Sprint("teller-", i+1), redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		for range workers {
			all.Go(func() error { return work(ctx, client, b) })
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	d.Say("%d transfers between %d accounts by %d workers. The sum was %d before, and is %d now.",
		processes*workers*transfers, len(accounts), processes*workers, before, b.sum())
	return nil
}

// work makes one transfer after the other.
func work(ctx context.Context, client *redlock.Client, b *bank) error {
	for done := 0; done < transfers; {
		order := rand.Perm(len(accounts))
		err := transfer(ctx, client, b, accounts[order[0]], accounts[order[1]], 1+rand.Int64N(50))
		switch {
		case errors.Is(err, redlock.ErrLost), errors.Is(err, fence.ErrStale):
			// The worker was paused and its lease ended: it makes another transfer, under a new lease.
		case err != nil:
			return err
		default:
			done++
		}
	}
	return nil
}

// transfer moves an amount, or less if the account has less.
func transfer(ctx context.Context, client *redlock.Client, b *bank, from, to string, amount int64) error {
	done := false
	both := client.Multi([]string{from, to}, redlock.WithWait(patience))
	err := both.Do(ctx, func(_ context.Context, lease *redlock.Lease) error {
		source, target, err := b.balances(from, to, lease.Token())
		if err != nil {
			return err
		}
		time.Sleep(checking)
		amount = min(amount, source)
		err = b.set(from, source-amount, to, target+amount, lease.Token())
		done = err == nil
		return err
	})
	if done {
		return nil // even if the lease was lost behind it: the bank has accepted the token
	}
	return err
}
