package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock"
)

// Names of locks that callers wait for: a test holds them to make the callers wait.
const (
	Orders    = 4 // order-0 and the following
	Catalogue = "catalogue"
)

// caller is one kind of caller.
type caller struct {
	count int           // how many there are
	pause time.Duration // between two calls, on average
	call  func(ctx context.Context) error
}

// run calls until ctx ends. A call that failed is over: the client logs why, and its metrics count it.
func (c caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.call(ctx)
		pause(ctx, c.pause/2+rand.N(c.pause))
	}
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// holdFor returns work under a lock that takes from half of d to one and a half.
func holdFor(d time.Duration) func(context.Context, *redlock.Lease) error {
	return func(ctx context.Context, _ *redlock.Lease) error {
		pause(ctx, d/2+rand.N(d))
		return ctx.Err()
	}
}

// callers are the kinds of callers: some wait for each other, and none waits for long.
func callers(client *redlock.Client, c Config) []caller {
	catalogue := client.RWMutex(Catalogue)
	deployments := client.Semaphore("deployments", 3)
	all := []caller{
		{3, 500 * time.Millisecond, func(ctx context.Context) error {
			name := fmt.Sprint("order-", rand.IntN(Orders))
			return client.Mutex(name).Do(ctx, holdFor(100*time.Millisecond))
		}},
		{4, time.Second, func(ctx context.Context) error { return catalogue.RDo(ctx, holdFor(300*time.Millisecond)) }},
		{1, 3 * time.Second, func(ctx context.Context) error { return catalogue.Do(ctx, holdFor(200*time.Millisecond)) }},
		{4, time.Second, func(ctx context.Context) error { return deployments.Do(ctx, 1, holdFor(time.Second)) }},
		{2, time.Second, func(ctx context.Context) error {
			from := rand.IntN(3)
			accounts := []string{fmt.Sprint("account-", from), fmt.Sprint("account-", (from+1)%3)}
			return client.Multi(accounts).Do(ctx, holdFor(200*time.Millisecond))
		}},
		{2, c.TTL, func(ctx context.Context) error { return client.Mutex("report").TryDo(ctx, holdFor(c.TTL/2)) }},
		// One candidate leads for as long as it can: its lease is renewed all the time.
		{1, time.Second, func(ctx context.Context) error {
			return client.Mutex("leader").Lead(ctx, func(ctx context.Context, _ *redlock.Lease) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}},
	}
	if c.LoseEvery > 0 {
		all = append(all, caller{1, c.LoseEvery, func(ctx context.Context) error { return loseALease(ctx, client) }})
	}
	return all
}

// loseALease takes its own lock away, as an operator does with a lock that is stuck, and finds that out.
func loseALease(ctx context.Context, client *redlock.Client) error {
	return client.Mutex("fragile").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		if _, err := client.ForceUnlock(ctx, lease.Name()); err != nil {
			return err
		}
		return lease.Extend(ctx)
	})
}
