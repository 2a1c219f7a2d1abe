package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redlock-go/redlock"
)

func ExampleMutex_Observe() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	// A candidate, often in another process. Its label is where it serves.
	candidate := client.Mutex("scheduler", redlock.WithOwnerLabel("10.0.0.7:8080"))
	seen, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- candidate.Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
			<-seen
			return nil // it has done its work
		})
	}()

	leader := ""
	for holding, err := range client.Mutex("scheduler").Observe(ctx) { // a follower
		switch {
		case err != nil: // ErrNoQuorum: holding is what most of the nodes that answered say
			log.Print(err)
		case holding.Token > 0 && leader == "":
			leader = holding.Label
			fmt.Println("send requests to", leader)
			close(seen)
		case holding.Owner == "" && leader != "":
			fmt.Println("nobody leads now:", <-ended)
			return
		}
	}
	// Output:
	// send requests to 10.0.0.7:8080
	// nobody leads now: <nil>
}

func ExampleWithAnnounce() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	backup := client.Mutex("backup", redlock.WithAnnounce(), redlock.WithOwnerLabel("web-1"))

	var lease *redlock.Lease
	for holding, err := range client.Mutex("backup").Observe(ctx) {
		switch {
		case err == nil && lease == nil:
			fmt.Printf("holder: %q\n", holding.Label)
			if lease, err = backup.Lock(ctx); err != nil {
				log.Fatal(err)
			}
			defer lease.Unlock(ctx)
		case err == nil && holding.Token > 0: // a holder that does not announce itself has no token here
			fmt.Printf("holder: %q, and the token is the lease's: %t\n", holding.Label, holding.Token == lease.Token())
			return
		}
	}
	// Output:
	// holder: ""
	// holder: "web-1", and the token is the lease's: true
}

func ExampleHolding() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	reader, err := client.RWMutex("report").RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Unlock(ctx)

	for holding, err := range client.Mutex("report").Observe(ctx) {
		switch {
		case err != nil:
			log.Print(err)
		case holding.Shared:
			fmt.Println("readers hold the lock")
			return
		case holding.Owner == "":
			fmt.Println("nobody holds the lock")
		default:
			fmt.Println(holding.Label, "holds the lock since", holding.Since, "under token", holding.Token)
		}
	}
	// Output: readers hold the lock
}
