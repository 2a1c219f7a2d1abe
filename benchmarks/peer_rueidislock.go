package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidislockOne = contender{
	name:  "rueidislock",
	about: "rueidislock v1.0.79 on the first server alone, KeyMajority 1, NoLoopTracking; a waiter is woken by client tracking",
	open:  func(addrs []string) (peer, error) { return openRueidislock(addrs[0]) },
}

// rueidislockPeer is a locker over one server: that is all it knows.
type rueidislockPeer struct {
	locker rueidislock.Locker
}

func openRueidislock(addr string) (*rueidislockPeer, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockPeer{locker}, nil
}

func (p *rueidislockPeer) lock(ctx context.Context, name string) (held, error) {
	_, cancel, err := p.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return rueidislockHeld(cancel), nil
}

func (p *rueidislockPeer) close() error {
	p.locker.Close()
	return nil
}

// rueidislockHeld releases the lock; it returns when the server has.
type rueidislockHeld context.CancelFunc

func (h rueidislockHeld) Unlock(context.Context) error {
	h()
	return nil
}
