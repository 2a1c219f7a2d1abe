package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestReadersHoldTogetherAndWritersAlone(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client().RWMutex("x"), net.Client().RWMutex("x")
		first := net.Must(a.RLock(t.Context()))
		second := net.Must(b.RLock(t.Context()))
		require.True(t, first.Shared())
		require.Equal(t, first.Token(), second.Token(), "they hold the lock together")

		_, err := b.TryLock(t.Context())
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.Shared)
		require.Empty(t, held.Holder)
		require.Positive(t, held.Remaining)
		require.ErrorContains(t, err, "held by readers")

		require.NoError(t, first.Unlock(t.Context()))
		_, err = a.TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld, "the second reader holds it")
		require.NoError(t, second.Unlock(t.Context()))

		writer := net.Must(a.TryLock(t.Context()))
		require.False(t, writer.Shared())
		require.Greater(t, writer.Token(), second.Token())
		_, err = b.TryRLock(t.Context())
		require.ErrorAs(t, err, &held)
		require.Equal(t, writer.Owner(), held.Holder)
		require.False(t, held.Shared)
		require.NoError(t, writer.Unlock(t.Context()))

		after := net.Must(b.TryRLock(t.Context()))
		require.GreaterOrEqual(t, after.Token(), writer.Token())
		require.NoError(t, after.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestDowngradeLetsReadersInAndKeepsWritersOut(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client().RWMutex("x"), net.Client().RWMutex("x")
		writer := net.Must(a.Lock(t.Context()))
		entered := make(chan *redlock.Lease, 1)
		go func() {
			lease, err := b.RLock(context.Background())
			if err == nil {
				entered <- lease
			}
		}()
		time.Sleep(time.Second)
		require.Empty(t, entered)

		require.NoError(t, writer.Downgrade(t.Context()))
		require.True(t, writer.Shared())
		synctest.Wait()
		reader := <-entered
		require.GreaterOrEqual(t, reader.Token(), writer.Token())
		net.Held(b.TryLock(t.Context()))
		time.Sleep(time.Minute)
		require.True(t, writer.Valid(), "it goes on to renew itself")
		require.NoError(t, writer.Unlock(t.Context()))
		require.True(t, reader.Valid())
		require.NoError(t, reader.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func ExampleClient_RWMutex() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lock := client.RWMutex("report")

	first, err := lock.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Unlock(ctx)
	second, err := lock.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Unlock(ctx)
	fmt.Println("two readers:", first.Valid() && second.Valid())

	// Its writers' side is the Mutex of that name.
	_, err = client.Mutex("report").TryLock(ctx)
	fmt.Println("a writer is refused:", errors.Is(err, redlock.ErrHeld))
	// Output:
	// two readers: true
	// a writer is refused: true
}

func ExampleRWMutex_Lock() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	// The context bounds the waiting, for readers and writers that came before.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	lease, err := client.RWMutex("report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("writing, alone:", !lease.Shared())
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// writing, alone: true
	// <nil>
}

func ExampleRWMutex_TryLock() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lock := client.RWMutex("report")
	reader, err := lock.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Unlock(ctx)

	_, err = lock.TryLock(ctx)
	var held *redlock.HeldError
	if errors.As(err, &held) {
		fmt.Println("readers hold it:", held.Shared)
	}
	// Output: readers hold it: true
}

func ExampleRWMutex_Do() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	err := client.RWMutex("report").Do(context.Background(), func(_ context.Context, lease *redlock.Lease) error {
		fmt.Println("writing, alone:", !lease.Shared())
		return nil
	})
	fmt.Println(err)
	// Output:
	// writing, alone: true
	// <nil>
}

func ExampleRWMutex_RLock() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	// The context bounds the waiting, for a writer.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	lease, err := client.RWMutex("report").RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reading, beside other readers:", lease.Shared())
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// reading, beside other readers: true
	// <nil>
}

func ExampleRWMutex_TryRLock() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lock := client.RWMutex("report")
	writer, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Unlock(ctx)

	_, err = lock.TryRLock(ctx)
	fmt.Println("a writer is at work:", errors.Is(err, redlock.ErrHeld))
	// Output: a writer is at work: true
}

func ExampleRWMutex_RDo() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	lock := client.RWMutex("report")

	err := lock.RDo(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
		fmt.Println("reading")
		// A share cannot become a lease that holds the lock alone.
		_, err := lock.Lock(ctx)
		fmt.Println("refused at once:", errors.Is(err, redlock.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// reading
	// refused at once: true
	// <nil>
}

func ExampleRWMutex_RLocker() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	work := func(lock *redlock.Mutex) error { // knows nothing of readers
		return lock.Do(ctx, func(_ context.Context, lease *redlock.Lease) error {
			fmt.Println("shared:", lease.Shared())
			return nil
		})
	}
	lock := client.RWMutex("report")
	fmt.Println(work(lock.RLocker()))
	fmt.Println(work(client.Mutex("report")))
	// Output:
	// shared: true
	// <nil>
	// shared: false
	// <nil>
}

func ExampleLease_Shared() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	var guard fence.Guard // in the process that keeps the report
	report := "first edition"

	read := func(_ context.Context, lease *redlock.Lease) error {
		access := guard.Write // also what the holder of an exclusive lease reads
		if lease.Shared() {
			access = guard.Read
		}
		return access("report", lease.Token(), func() error {
			fmt.Println("shared:", lease.Shared(), "read:", report)
			return nil
		})
	}
	lock := client.RWMutex("report")
	fmt.Println(lock.RDo(context.Background(), read))
	fmt.Println(lock.Do(context.Background(), read))
	// Output:
	// shared: true read: first edition
	// <nil>
	// shared: false read: first edition
	// <nil>
}

func ExampleLease_Downgrade() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lock := client.RWMutex("report")

	lease, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	fmt.Println("writing, alone:", !lease.Shared())

	// No other writer comes between the write and what is read after it.
	if err := lease.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	beside, err := lock.TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer beside.Unlock(ctx)
	fmt.Println("reading, beside another reader:", lease.Shared() && beside.Shared())
	_, err = lock.TryLock(ctx)
	fmt.Println("other writers are refused:", errors.Is(err, redlock.ErrHeld))
	// Output:
	// writing, alone: true
	// reading, beside another reader: true
	// other writers are refused: true
}
