package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

// work is the process of a stage. It reads the text of the stage before it, if there is one, and writes its
// token and the text for the next stage. The last stage releases the lock.
func work(ctx context.Context, d *demo.Demo, stage string) error {
	text, err := io.ReadAll(d.In)
	if err != nil {
		return err
	}
	client, err := d.Open(ctx, stage, redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer client.Close()
	lease, err := begin(ctx, client, strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	defer lease.Unlock(context.Background()) // nothing, if the lease is transferred
	fmt.Fprintf(d.Log, "%s works in a process of its own, under the lock.\n", stage)
	time.Sleep(50 * time.Millisecond)
	if !lease.Valid() {
		return lease.Err()
	}
	next := ""
	if stage != stages[len(stages)-1] {
		// The work is done: from here on this process must not touch what the lock protects.
		if next, err = lease.Transfer(ctx); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(d.Out, lease.Token(), next)
	return err
}

// begin takes the lock, or goes on with the lease of the stage before.
func begin(ctx context.Context, client *redlock.Client, text string) (*redlock.Lease, error) {
	if text == "" {
		return client.Mutex(name).Lock(ctx)
	}
	return client.Resume(ctx, text)
}
