package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

type work = func(ctx context.Context, lease *redlock.Lease) error

// tryDos are the calls that run fn only if they need not wait.
func tryDos(c *redlock.Client) map[string]func(context.Context, work) error {
	rw, permits := c.RWMutex("x"), c.Semaphore("s", 3)
	return map[string]func(context.Context, work) error{
		"Mutex.TryDo":     c.Mutex("x").TryDo,
		"RWMutex.TryDo":   rw.TryDo,
		"RWMutex.TryRDo":  rw.TryRDo,
		"RLocker.TryDo":   rw.RLocker().TryDo,
		"Multi.TryDo":     c.Multi([]string{"x", "y"}).TryDo,
		"Semaphore.TryDo": func(ctx context.Context, fn work) error { return permits.TryDo(ctx, 2, fn) },
	}
}

func TestTryDoRunsTheFunctionUnderALease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		for name, tryDo := range tryDos(c) {
			ran := 0
			err := tryDo(t.Context(), func(ctx context.Context, lease *redlock.Lease) error {
				ran++
				require.True(t, lease.Valid())
				require.Equal(t, name == "RWMutex.TryRDo" || name == "RLocker.TryDo", lease.Shared(), name)
				require.Equal(t, name == "Semaphore.TryDo", len(lease.Slots()) == 2, name)
				if lease.Slots() == nil {
					require.ErrorIs(t, other.Mutex("x").TryDo(ctx, never), redlock.ErrHeld, name)
				}
				return errMine
			})
			require.Equal(t, errMine, err, name)
			require.Equal(t, 1, ran, name)
			net.RequireNoKeys()
		}
	})
}

func TestTryDoDoesNotRunTheFunctionIfTheLockIsHeld(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client()
		net.Must(holder.Mutex("x").Lock(t.Context()))
		net.Must(holder.Semaphore("s", 3).Acquire(t.Context(), 2))
		synctest.Wait()
		for name, tryDo := range tryDos(c) {
			var err error
			took := testnet.Elapsed(func() { err = tryDo(t.Context(), never) })
			require.ErrorIs(t, err, redlock.ErrHeld, name)
			var held *redlock.HeldError
			require.ErrorAs(t, err, &held, name)
			require.LessOrEqual(t, took, 500*ms, "%s does not wait", name)
		}
		net.RequireNoTraces()
		err := c.Semaphore("s", 3).TryDo(t.Context(), 4, never)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Mutex("free").TryDo(t.Context(), never), redlock.ErrClosed)
	})
}

func TestTryDoReturnsTheLossOfItsLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for name, tryDo := range tryDos(c) {
			err := tryDo(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				synctest.Wait() // all nodes have granted it
				for _, n := range net.Nodes {
					for _, key := range n.Keys() {
						n.Redis.Del(key)
					}
				}
				<-ctx.Done()
				return errMine
			})
			require.ErrorIs(t, err, redlock.ErrLost, name)
			require.ErrorIs(t, err, errMine, name)
		}
	})
}

func ExampleMutex_TryDo() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	// Each machine calls this at the same time. One of them runs the report.
	report := func(machine string, work func()) {
		err := client.Mutex("nightly-report").TryDo(context.Background(), func(context.Context, *redlock.Lease) error {
			fmt.Println(machine, "runs the report")
			work()
			return nil
		})
		if errors.Is(err, redlock.ErrHeld) {
			fmt.Println(machine, "leaves it to the other one")
		} else if err != nil {
			log.Fatal(err)
		}
	}
	report("web-1", func() { report("web-2", func() {}) })
	// Output:
	// web-1 runs the report
	// web-2 leaves it to the other one
}

func ExampleRWMutex_TryDo() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	page := client.RWMutex("page")

	err := page.RDo(context.Background(), func(context.Context, *redlock.Lease) error {
		err := page.TryDo(context.Background(), func(context.Context, *redlock.Lease) error { return nil })
		fmt.Println("not written while it is read:", errors.Is(err, redlock.ErrHeld))
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// not written while it is read: true
	// released: <nil>
}

func ExampleRWMutex_TryRDo() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	page := client.RWMutex("page")

	show := func() {
		err := page.TryRDo(context.Background(), func(context.Context, *redlock.Lease) error {
			fmt.Println("shown")
			return nil
		})
		if errors.Is(err, redlock.ErrHeld) {
			fmt.Println("being written: come back later")
		}
	}
	show()
	err := page.Do(context.Background(), func(context.Context, *redlock.Lease) error {
		show()
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// shown
	// being written: come back later
	// released: <nil>
}

func ExampleSemaphore_TryDo() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	renderers := client.Semaphore("renderers", 2)

	err := renderers.TryDo(context.Background(), 2, func(context.Context, *redlock.Lease) error {
		err := renderers.TryDo(context.Background(), 1, func(context.Context, *redlock.Lease) error { return nil })
		fmt.Println("a third one is not let in:", errors.Is(err, redlock.ErrHeld))
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// a third one is not let in: true
	// released: <nil>
}
