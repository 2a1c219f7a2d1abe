package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func ExampleTrace() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	counts := map[string]int{} // hooks run in one goroutine
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithTrace(&redlock.Trace{
		CallEnd:    func(e redlock.CallEvent) { counts[e.Op]++ }, // e.Elapsed, for a histogram
		BallotEnd:  func(e redlock.BallotEvent) { counts["ballot "+string(e.Outcome)]++ },
		BallotVote: func(v redlock.BallotVote) { counts["vote "+string(v.Outcome)]++ }, // v.Latency, v.Late
		WaitEnd:    func(e redlock.WaitEvent) { counts["waits"]++ },                    // e.Waited
		Lease:      func(e redlock.LeaseEvent) { counts["lease "+string(e.Kind)]++ },
		Node:       func(e redlock.NodeEvent) { counts["node "+string(e.Kind)]++ },
	}))
	if err != nil {
		log.Fatal(err)
	}
	err = client.Mutex("invoice-42").Do(context.Background(), func(context.Context, *redlock.Lease) error { return nil })
	fmt.Println(err, client.Close()) // Close awaits the hooks
	fmt.Println("calls:", counts["lock"], counts["unlock"])
	fmt.Println("leases:", counts["lease granted"], counts["lease released"], "waits:", counts["waits"])
	// Output:
	// <nil> <nil>
	// calls: 1 1
	// leases: 1 1 waits: 0
}

func ExampleClient_Stats() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	lease, err := client.Mutex("invoice-42").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(context.Background())

	stats := client.Stats() // asks no node
	fmt.Println("leases:", stats.Leases, "waiting:", stats.Waiting, "lost so far:", stats.Lost)
	up := 0
	for _, n := range stats.Nodes {
		if n.State == "up" { // else n.Err says why not
			up++
		}
	}
	fmt.Println("a majority is up:", up >= 2)
	// Output:
	// leases: 1 waiting: 0 lost so far: 0
	// a majority is up: true
}

func ExampleQuorumError() {
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
	nodes.Stop(0)
	nodes.Stop(1)

	_, err = client.Mutex("invoice-42").TryLock(context.Background())
	var quorum *redlock.QuorumError
	if errors.As(err, &quorum) {
		fmt.Println("needed:", quorum.Need)
		for _, vote := range quorum.Votes[:2] { // two cannot grant it, so the call need not await the third
			granted := vote.Outcome == redlock.Outcome("granted")
			fmt.Println("node", vote.Index, "granted:", granted, "failed:", vote.Cause != nil)
		}
	}
	// Output:
	// needed: 2
	// node 0 granted: false failed: true
	// node 1 granted: false failed: true
}

func ExampleWaiterStatus() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := client.Mutex("invoice-42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	gaveUp := make(chan error)
	go func() {
		_, err := client.Mutex("invoice-42", redlock.WithOwnerLabel("web-2")).Lock(ctx)
		gaveUp <- err
	}()

	var status redlock.Status
	for len(status.Queue) == 0 {
		if status, err = client.Inspect(ctx, "invoice-42"); err != nil {
			log.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, w := range status.Queue { // in turn
		fmt.Println("a waiter that asked less than a minute ago:", time.Since(w.Since) < time.Minute)
	}
	for _, n := range status.Nodes { // what each node said
		fmt.Println("node", n.Index, "has the holder:", n.Holder == lease.Owner(), n.Err)
	}
	cancel()
	fmt.Println("gave up:", errors.Is(<-gaveUp, context.Canceled))
	// Output:
	// a waiter that asked less than a minute ago: true
	// node 0 has the holder: true <nil>
	// node 1 has the holder: true <nil>
	// node 2 has the holder: true <nil>
	// gave up: true
}

func ExampleLease_Since() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("backup").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	status, err := client.Inspect(ctx, "backup") // any client may ask
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a long backup:", time.Since(lease.Since()) > time.Hour)
	fmt.Println("others see the same:", status.Since.Equal(lease.Since()))
	// Output:
	// a long backup: false
	// others see the same: true
}

func ExampleStatus() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Semaphore("deployments", 3, redlock.WithOwnerLabel("shop")).Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	for status, err := range client.Locks(ctx, "deployments*") {
		if err != nil {
			log.Fatal(err)
		}
		// Since is what the clock of the holder's machine showed: other machines' clocks may differ.
		fmt.Println(status.Label, "holds a permit, for less than a minute:", time.Since(status.Since) < time.Minute)
	}
	status, err := client.Inspect(ctx, "deployments")
	for _, p := range status.Permits {
		fmt.Println(p.Since.Equal(lease.Since()), err)
	}
	// Output:
	// shop holds a permit, for less than a minute: true
	// true <nil>
}

func ExampleClient_Members() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(time.Millisecond), redlock.WithTTL(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.WaitReady(context.Background()); err != nil { // a majority votes
		log.Fatal(err)
	}
	for _, n := range client.Stats().Nodes {
		if n.Master == "" {
			fmt.Println(n.Node, "is none of the masters:", n.Err)
		}
	}
	fmt.Println(len(client.Members()), "masters")
	// Output: 3 masters
}
