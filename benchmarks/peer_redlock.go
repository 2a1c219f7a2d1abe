package main

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock"
)

var redlockDefault = contender{
	name:  "redlock",
	about: "this library, redlock.Open, default settings, a silent logger",
	open:  func(s site) (peer, error) { return openRedlock(s) },
}

var redlockUnfenced = contender{
	name:  "redlock-unfenced",
	about: "the same with WithoutFencing(): no tokens, as redsync has none",
	open:  func(s site) (peer, error) { return openRedlock(s, redlock.WithoutFencing()) },
}

// admission is for how long new servers may wait before they grant a first lock:
// the guard, and some time to connect.
const admission = 90 * time.Second

// redlockPeer is this library.
type redlockPeer struct {
	client *redlock.Client
}

func openRedlock(s site, opts ...redlock.ClientOption) (*redlockPeer, error) {
	urls := make([]string, len(s.addrs))
	for i, addr := range s.addrs {
		urls[i] = "redis://" + addr + s.database()
	}
	client, err := redlock.Open(urls, append([]redlock.ClientOption{redlock.WithLogger(nil)}, opts...)...)
	if err != nil {
		return nil, err
	}
	p := &redlockPeer{client}
	if err := p.warm(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return p, nil
}

// warm locks once. Servers that are new serve their first lock after one guard:
// that is not what is measured here.
func (p *redlockPeer) warm() error {
	ctx, cancel := context.WithTimeout(context.Background(), admission)
	defer cancel()
	lease, err := p.client.Mutex("warm").Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

func (p *redlockPeer) lock(ctx context.Context, name string) (held, error) {
	lease, err := p.client.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err // not lease: a nil *Lease in a held is not a nil held
	}
	return lease, nil
}

func (p *redlockPeer) close() error { return p.client.Close() }
