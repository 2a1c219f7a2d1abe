package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func ExampleOpen() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	client, err := redlock.Open(nodes.URLs(), // []string{"redis://10.0.0.1:6379", …}
		redlock.WithTTL(20*time.Second),      // others wait for as long if this process dies
		redlock.WithOwnerLabel("billing"),    // the holder's name in the errors of others
		redlock.WithNodeTimeout(time.Second), // servers are far away
		redlock.WithRestartGuard(0))          // for tests alone
	if err != nil {
		log.Fatal(err) // a bad URL or option
	}
	defer client.Close()
	fmt.Println(client.Ping(context.Background()))

	_, err = redlock.Open([]string{"http://10.0.0.1"})
	fmt.Println("a bad URL:", errors.Is(err, redlock.ErrConfig))
	// Output:
	// <nil>
	// a bad URL: true
}

func ExampleNew() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	var pools []redlock.Pool // or redigo's pools, or those of an adapter
	for _, url := range nodes.URLs() {
		addr := strings.TrimPrefix(url, "redis://")
		pools = append(pools, redlock.DialPool(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}, redlock.DialConfig{Addr: addr}))
	}
	client, err := redlock.New(pools, redlock.WithRestartGuard(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Ping(context.Background()))
	// Output: <nil>
}

func ExampleClient_Close() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("invoice-42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(client.Close()) // releases all leases
	fmt.Println("released:", errors.Is(lease.Err(), redlock.ErrClosed))
	_, err = client.Mutex("invoice-42").Lock(ctx)
	fmt.Println("closed:", errors.Is(err, redlock.ErrClosed))
	// Output:
	// <nil>
	// released: true
	// closed: true
}

func ExampleClient_Mutex() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	// A Mutex is a name and its settings: make one wherever you need it.
	backup := client.Mutex("backup", redlock.WithTTL(time.Minute), redlock.WithMaxHold(time.Hour))
	fmt.Println(backup.Do(ctx, func(context.Context, *redlock.Lease) error {
		_, err := client.Mutex("backup").TryLock(context.Background())
		fmt.Println("the same lock:", errors.Is(err, redlock.ErrHeld))
		return nil
	}))
	// Output:
	// the same lock: true
	// <nil>
}

func ExampleClient_Inspect() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("invoice-42", redlock.WithOwnerLabel("web-1")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	status, err := client.Inspect(ctx, "invoice-42") // changes nothing
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held by", status.Label, "for another", status.Remaining.Round(10*time.Second))
	fmt.Println("waiters:", len(status.Queue), "nodes:", len(status.Nodes))
	// Output:
	// held by web-1 for another 10s
	// waiters: 0 nodes: 3
}

func ExampleClient_ForceUnlock() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	dead, err := client.Mutex("backup", redlock.WithOwnerLabel("web-1")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	// For people who know that the holder is gone. It is not stopped: only its token is out of date.
	taken, err := client.ForceUnlock(ctx, "backup")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("taken from", taken.Label)
	fmt.Println("its token is old:", dead.Token() < taken.Token)
	fmt.Println("lost:", errors.Is(dead.Unlock(ctx), redlock.ErrLost))
	// Output:
	// taken from web-1
	// its token is old: true
	// lost: true
}

func ExampleMutex_Do() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	invoice := client.Mutex("invoice-42", redlock.WithWait(2*time.Second)) // the work may take longer
	err := invoice.Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
		fmt.Println("paying", lease.Name(), "with a token:", lease.Token() > 0)
		return ctx.Err() // ctx ends before another caller can hold the lock
	})
	switch {
	case err == nil:
		fmt.Println("paid")
	case errors.Is(err, redlock.ErrHeld):
		fmt.Println("another caller held it for two seconds")
	case errors.Is(err, redlock.ErrLost):
		fmt.Println("another caller may have paid too: the token decides")
	}
	// Output:
	// paying invoice-42 with a token: true
	// paid
}
