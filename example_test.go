package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/redlocktest"
)

// The nodes of these examples are embedded in the test process and are not
// Redis. With real servers their URLs take the place of nodes.URLs().

// openExample opens a client over three such nodes. closeAll closes the client and the nodes.
func openExample() (client *redlock.Client, closeAll func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	client, err = redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(nil))
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		nodes.Close()
	}
}

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

func ExampleHeldError() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lock := client.RWMutex("report", redlock.WithOwnerLabel("web-1"))

	refusal := func(err error) string {
		var held *redlock.HeldError
		switch {
		case !errors.As(err, &held):
			return fmt.Sprint(err)
		case held.Shared:
			return fmt.Sprint("readers hold it, for less than ten seconds more: ", held.Remaining <= 10*time.Second)
		default:
			_, label, _ := strings.Cut(held.Holder, "@")
			return "held by " + label
		}
	}
	reader, err := lock.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = lock.TryLock(ctx)
	fmt.Println(refusal(err))
	if err := reader.Unlock(ctx); err != nil {
		log.Fatal(err)
	}

	writer, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Unlock(ctx)
	_, err = lock.TryLock(ctx)
	fmt.Println(refusal(err))
	// Output:
	// readers hold it, for less than ten seconds more: true
	// held by web-1
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

func ExampleReader() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	for label, ttl := range map[string]time.Duration{"web-1": 20 * time.Second, "web-2": 10 * time.Second} {
		lease, err := client.RWMutex("report", redlock.WithOwnerLabel(label), redlock.WithTTL(ttl)).RLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Unlock(ctx)
	}

	status, err := client.Inspect(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("held alone by %q, readers: %d\n", status.Holder, len(status.Readers))
	for _, r := range status.Readers { // the longest first
		fmt.Println(r.Label, "for another", r.Remaining.Round(10*time.Second))
	}
	// Output:
	// held alone by "", readers: 2
	// web-1 for another 20s
	// web-2 for another 10s
}
