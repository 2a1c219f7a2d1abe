package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// pay is the work under the lock. Whatever it changes should refuse a token that is less than the last one.
func pay(ctx context.Context, token int64) error {
	fmt.Println("paying, with a token:", token > 0)
	return ctx.Err() // ctx ends before another caller can hold the lock
}

func Example() {
	nodes, err := redlocktest.New(3) // in a program: three Redis servers, and their URLs below
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0)) // a guard of 0 is for tests alone
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.WaitReady(ctx); err != nil { // a new cluster waits for one guard, ten seconds
		log.Fatal(err)
	}

	invoice := client.Mutex("invoice-42", redlock.WithWait(2*time.Second))
	err = invoice.Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		return pay(ctx, lease.Token())
	})
	fmt.Println("paid:", err)
	// Output:
	// paying, with a token: true
	// paid: <nil>
}
