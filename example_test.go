package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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
		fmt.Println("somebody else runs the report:", held.Label)
		fmt.Println("their lease ends within ten seconds:", held.Remaining <= 10*time.Second)
	default:
		fmt.Println("too few nodes answered:", err)
	}
	// Output:
	// somebody else runs the report: web-1
	// their lease ends within ten seconds: true
}

func ExampleClient_Multi() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	transfer, err := client.Multi([]string{"account-7", "account-3"}).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer transfer.Unlock(ctx)

	// Each of the names is that of a Mutex.
	_, err = client.Mutex("account-3").TryLock(ctx)
	fmt.Println("account-3 is held:", errors.Is(err, redlock.ErrHeld))
	_, err = client.Multi([]string{"account-7", "account-9"}).TryLock(ctx)
	fmt.Println("account-7 is held:", errors.Is(err, redlock.ErrHeld))
	account9, err := client.Mutex("account-9").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer account9.Unlock(ctx)
	fmt.Println("account-9 is free: the refused attempt held none of its names")
	// Output:
	// account-3 is held: true
	// account-7 is held: true
	// account-9 is free: the refused attempt held none of its names
}

func ExampleLease_Names() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	var guard fence.Guard // in the process that keeps the accounts
	balance := map[string]int{"account-3": 10, "account-7": 20}

	accounts := client.Multi([]string{"account-7", "account-3"})
	err := accounts.Do(context.Background(), func(_ context.Context, lease *redlock.Lease) error {
		fmt.Println(lease.Name())
		for _, account := range lease.Names() { // one token serves all of them
			err := guard.Write(account, lease.Token(), func() error {
				balance[account]++
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(balance, err)
	// Output:
	// account-3, account-7
	// map[account-3:11 account-7:21] <nil>
}

func ExamplePermitStatus() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Semaphore("deployments", 3, redlock.WithOwnerLabel("shop")).Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	status, err := client.Inspect(ctx, "deployments")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range status.Permits { // slot k is the lock "deployments#k", for ForceUnlock
		fmt.Println(p.Label, "for another", p.Remaining.Round(10*time.Second))
	}
	// Output:
	// shop for another 10s
	// shop for another 10s
}

func ExampleShareStatus() {
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
		fmt.Println(r.Label, "for", time.Since(r.Since).Round(time.Minute), "so far, for another", r.Remaining.Round(10*time.Second))
	}
	// Output:
	// held alone by "", readers: 2
	// web-1 for 0s so far, for another 20s
	// web-2 for 0s so far, for another 10s
}

func ExampleClient_Semaphore() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	uplink := client.Semaphore("uplink", 3) // three callers at once
	lease, err := uplink.Acquire(context.Background(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one of three slots:", lease.Slots()[0] < 3)
	fmt.Println("released:", lease.Unlock(context.Background()))
	// Output:
	// one of three slots: true
	// released: <nil>
}

func ExampleSemaphore_Acquire() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // for the wait
	defer cancel()

	workers := client.Semaphore("workers", 5)
	two, err := workers.Acquire(ctx, 2) // both or none
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("permits:", len(two.Slots()))
	_, err = workers.Acquire(ctx, 6)
	fmt.Println("more than there are:", errors.Is(err, redlock.ErrConfig))
	fmt.Println("released:", two.Unlock(context.Background()))
	// Output:
	// permits: 2
	// more than there are: true
	// released: <nil>
}

func ExampleSemaphore_TryAcquire() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	workers := client.Semaphore("workers", 1)
	err := workers.Do(ctx, 1, func(context.Context, *redlock.Lease) error {
		_, err := client.Semaphore("workers", 1).TryAcquire(context.Background(), 1)
		var held *redlock.HeldError
		if errors.As(err, &held) {
			fmt.Println("too few permits are free:", held.Permits)
		}
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// too few permits are free: true
	// released: <nil>
}

func ExampleSemaphore_Do() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	err := client.Semaphore("deployments", 3).Do(context.Background(), 1, func(ctx context.Context, lease *redlock.Lease) error {
		fmt.Println("deploying, as one of three at most") // ctx ends if the permit is lost
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// deploying, as one of three at most
	// released: <nil>
}

func ExampleLease_Slots() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()

	// What the semaphore protects keeps one token for each slot, and refuses an older one.
	newest := make(map[int]int64)
	err := client.Semaphore("shards", 4).Do(context.Background(), 2, func(_ context.Context, lease *redlock.Lease) error {
		for _, slot := range lease.Slots() {
			fmt.Println("accepted:", lease.Token() >= newest[slot])
			newest[slot] = lease.Token()
		}
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// accepted: true
	// accepted: true
	// released: <nil>
}
