package main

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock"
)

var redlockDefault = contender{
	name:  "redlock",
	about: "this library, redlock.Open, default settings",
	open:  func(addrs []string) (peer, error) { return openRedlock(addrs) },
}

var redlockUnfenced = contender{
	name:  "redlock-unfenced",
	about: "the same with WithFencing(false): no tokens, as the peers have none",
	open: func(addrs []string) (peer, error) {
		return openRedlock(addrs, redlock.WithFencing(false))
	},
}

// redlockUnguarded is this library where many clients want one lock.
var redlockUnguarded = contender{
	name:  "redlock",
	about: "this library on five servers, redlock.Open, WithRestartGuard(0)",
	open: func(addrs []string) (peer, error) {
		return openRedlock(addrs, redlock.WithRestartGuard(0))
	},
}

// redlockPeer is this library.
type redlockPeer struct {
	client *redlock.Client
}

func openRedlock(addrs []string, opts ...redlock.Option) (*redlockPeer, error) {
	urls := make([]string, len(addrs))
	for i, addr := range addrs {
		urls[i] = "redis://" + addr
	}
	client, err := redlock.Open(urls, opts...)
	if err != nil {
		return nil, err
	}
	// Servers that are new serve their first lock after one guard: that is not
	// what is measured here.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lease, err := client.Mutex("warm").Lock(ctx)
	if err == nil {
		err = lease.Unlock(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &redlockPeer{client}, nil
}

func (p *redlockPeer) lock(ctx context.Context, name string) (held, error) {
	lease, err := p.client.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err // not lease: a nil *Lease in a held is not a nil held
	}
	return lease, nil
}

func (p *redlockPeer) close() error { return p.client.Close() }
