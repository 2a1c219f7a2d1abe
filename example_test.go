package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// The nodes of these examples are embedded in the test process and are not
// Redis. With real servers their URLs take the place of nodes.URLs().

func ExampleClient() {
	nodes, err := redlocktest.New(5)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	client, err := redlock.Open(nodes.URLs(), redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println("five nodes up, ping:", client.Ping(context.Background()))

	// Any minority of the nodes may be gone.
	nodes.Stop(0)
	nodes.Stop(4)
	fmt.Println("two nodes gone, ping:", client.Ping(context.Background()))

	// Without a majority the error shows every node's vote.
	nodes.Stop(2)
	err = client.Ping(context.Background())
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		fmt.Println("three nodes gone, answers needed:", quorum.Need, "of", len(quorum.Votes))
	}
	// Output:
	// five nodes up, ping: <nil>
	// two nodes gone, ping: <nil>
	// three nodes gone, answers needed: 3 of 5
}

func ExampleMutex_Lock() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	// The context bounds the waiting, not the holding.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	lease, err := client.Mutex("invoice-42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lease.Name())

	// Before everything that only the holder may do, ask whether it is still us.
	if lease.Valid() {
		fmt.Println("sending the invoice")
	}

	if err := lease.Unlock(context.Background()); err != nil {
		log.Fatal(err)
	}
	<-lease.Done()
	fmt.Println("over, and not lost:", errors.Is(lease.Err(), redlock.ErrReleased))
	// Output:
	// holding invoice-42
	// sending the invoice
	// over, and not lost: true
}

func ExampleLostError() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	err = client.Mutex("invoice-42").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		// An operator takes the lock away from its holder.
		if _, err := client.ForceUnlock(context.Background(), "invoice-42"); err != nil {
			return err
		}
		return lease.Extend(ctx)
	})
	var lost *redlock.LostError
	if errors.As(err, &lost) {
		fmt.Println("lost:", lost.Name, "reason:", lost.Reason)
	}
	switch {
	case lost == nil:
		fmt.Println("done")
	case lost.Reason == redlock.LostRevoked:
		fmt.Println("somebody took the lock away, or the servers lost their memory: stop")
	case lost.Reason == redlock.LostNoQuorum:
		fmt.Println("too few servers answered for too long:", lost.Cause)
	default:
		fmt.Println("the work took too long, or the process was suspended")
	}
	// Output:
	// lost: invoice-42 reason: revoked
	// somebody took the lock away, or the servers lost their memory: stop
}

func ExampleLostReason_String() {
	for _, reason := range []redlock.LostReason{
		redlock.LostExpired, redlock.LostMaxHold, redlock.LostRevoked, redlock.LostNoQuorum,
	} {
		fmt.Println(reason)
	}
	// Output:
	// expired
	// max hold
	// revoked
	// no quorum
}

func ExampleMutex_TryLock() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithOwnerLabel("web-1"), redlock.WithRestartGuard(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	lease, err := client.Mutex("nightly-report").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	_, err = client.Mutex("nightly-report").TryLock(ctx)
	var held *redlock.HeldError
	switch {
	case err == nil:
		fmt.Println("ours")
	case errors.As(err, &held):
		_, label, _ := strings.Cut(held.Holder, "@")
		fmt.Println("somebody else runs the report:", label)
		fmt.Println("their lease ends within ten seconds:", held.Remaining <= 10*time.Second)
	default:
		fmt.Println("too few nodes answered:", err)
	}
	// Output:
	// somebody else runs the report: web-1
	// their lease ends within ten seconds: true
}
