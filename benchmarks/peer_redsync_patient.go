package main

import "context"

var redsyncPatient = contender{
	name:  "redsync",
	about: "redsync v4.18.1 on five servers, default settings (32 tries, 50 to 250 ms apart), called again when they are used up",
	open: func(addrs []string) (peer, error) {
		p, err := openRedsync(addrs)
		if err != nil {
			return nil, err
		}
		return redsyncWaiter{p}, nil
	},
}

// redsyncWaiter waits until ctx ends, as the others do.
type redsyncWaiter struct {
	*redsyncPeer
}

func (p redsyncWaiter) lock(ctx context.Context, name string) (held, error) {
	for {
		lock, err := p.redsyncPeer.lock(ctx, name)
		if err == nil || ctx.Err() != nil {
			return lock, err
		}
	}
}
