package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func ExampleWithTTL() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	// All of these have defaults that fit the ttl. Bad relations between them are errors.
	_, err := client.Mutex("backup",
		redlock.WithTTL(30*time.Second),
		redlock.WithNodeTimeout(time.Second),
		redlock.WithRenewEvery(5*time.Second),
		redlock.WithDrift(0.001, time.Millisecond), // servers with good clocks
	).TryLock(context.Background())
	fmt.Println(err)
	_, err = client.Mutex("report", redlock.WithTTL(time.Second), redlock.WithRenewEvery(time.Second)).TryLock(context.Background())
	fmt.Println("renewed too late:", errors.Is(err, redlock.ErrConfig))
	// Output:
	// <nil>
	// renewed too late: true
}

func ExampleWithLogger() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(logger.With("component", "locks")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Ping(context.Background()))
	// Output: <nil>
}

func ExampleWithPrefix() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("backup").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	other, err := client.Mutex("backup", redlock.WithPrefix("staging:")).TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("another lock:", other.Unlock(ctx))
	// Output: another lock: <nil>
}

func ExampleWithMaxHold() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	err := client.Mutex("backup", redlock.WithMaxHold(100*time.Millisecond)).Do(context.Background(),
		func(ctx context.Context, _ *redlock.Lease) error {
			<-ctx.Done() // the work hangs
			return context.Cause(ctx)
		})
	var lost *redlock.LostError
	if errors.As(err, &lost) {
		fmt.Println(lost.Reason == redlock.LostMaxHold)
	}
	// Output: true
}

func ExampleWithoutRenewal() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	lease, err := client.Mutex("backup", redlock.WithTTL(200*time.Millisecond), redlock.WithoutRenewal()).Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}

	<-lease.Done() // unless Extend is called
	var lost *redlock.LostError
	if errors.As(lease.Err(), &lost) {
		fmt.Println(lost.Reason == redlock.LostExpired)
	}
	// Output: true
}

func ExampleWithoutFencing() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	err := client.Mutex("cache-refill", redlock.WithoutFencing()).Do(context.Background(),
		func(_ context.Context, lease *redlock.Lease) error {
			fmt.Println("token:", lease.Token())
			return nil
		})
	fmt.Println(err)
	// Output:
	// token: 0
	// <nil>
}

// The client gets pools of two of three masters, and reaches the third one by its address.
func ExampleWithMembers() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	others, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(time.Millisecond), redlock.WithTTL(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer others.Close()
	if err := others.WaitReady(context.Background()); err != nil { // the masters have their list
		log.Fatal(err)
	}

	open := func(addr string) (redlock.Pool, error) {
		dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
		return redlock.DialPool(dial, redlock.DialConfig{Addr: addr}), nil
	}
	var pools []redlock.Pool
	for _, addr := range others.Members()[:2] {
		pool, _ := open(addr)
		pools = append(pools, pool)
	}
	client, err := redlock.New(pools, redlock.WithMembers(open), redlock.WithTTL(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.WaitReady(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(client.Stats().Nodes), "nodes")
	// Output: 3 nodes
}
