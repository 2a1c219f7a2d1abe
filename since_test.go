package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock"
)

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
