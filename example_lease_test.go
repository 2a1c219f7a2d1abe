package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
)

func ExampleLease() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("invoice-42", redlock.WithOwnerLabel("web-1")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	fmt.Println(lease.Name(), "is held by", lease.Label())
	fmt.Println("the owner ends with the label:", strings.HasSuffix(lease.Owner(), "web-1"))
	fmt.Println("for the protected resource:", lease.Token() > 0)
	fmt.Println("valid:", lease.Valid(), "for", lease.Remaining().Round(10*time.Second), "unless renewed")
	fmt.Println("by the clock on the wall:", time.Until(lease.Until()).Round(10*time.Second))
	// Output:
	// invoice-42 is held by web-1
	// the owner ends with the label: true
	// for the protected resource: true
	// valid: true for 10s unless renewed
	// by the clock on the wall: 10s
}

func ExampleLease_Context() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	lease, err := client.Mutex("export").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := lease.Context(context.Background()) // for the work: Do passes such a context to its fn
	defer cancel()
	fmt.Println("working:", ctx.Err())
	fmt.Println("unlock:", lease.Unlock(context.Background()))
	<-ctx.Done()
	fmt.Println("released:", errors.Is(context.Cause(ctx), redlock.ErrReleased))
	// Output:
	// working: <nil>
	// unlock: <nil>
	// released: true
}

func ExampleLease_Done() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	lease, err := client.Mutex("feed", redlock.WithMaxHold(100*time.Millisecond)).Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(context.Background())

	select {
	case <-lease.Done(): // then Err says why
		fmt.Println("lost:", errors.Is(lease.Err(), redlock.ErrLost))
	case <-time.After(time.Minute): // the work
	}
	// Output: lost: true
}

func ExampleLease_Extend() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("import", redlock.WithoutRenewal()).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	for page := range 3 { // a page that hangs does not hold the lock for longer than a ttl
		if err := lease.Extend(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("page", page)
	}
	// Output:
	// page 0
	// page 1
	// page 2
}

func ExampleLease_Unlock() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := client.Mutex("invoice-42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	cancel()
	fmt.Println(lease.Unlock(ctx)) // releases, though ctx has ended
	fmt.Println(lease.Unlock(ctx)) // so a deferred second call does no harm
	// Output:
	// <nil>
	// <nil>
}
