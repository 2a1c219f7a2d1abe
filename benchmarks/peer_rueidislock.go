package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidislockOne = contender{
	name: "rueidislock",
	about: "rueidislock" + versionOf("github.com/redis/rueidis") + ", the first server alone, KeyMajority 1, " +
		"NoLoopTracking; TryWithContext where nobody waits, else WithContext, woken by client tracking",
	single: true,
	open:   func(s site) (peer, error) { return openRueidislock(s.addrs[0], rueidislock.Locker.TryWithContext) },
	waits:  func(s site) (peer, error) { return openRueidislock(s.addrs[0], rueidislock.Locker.WithContext) },
}

// rueidislockCall is the locker's method that is used: WithContext hangs now and
// then on names that nobody holds.
type rueidislockCall func(rueidislock.Locker, context.Context, string) (context.Context, context.CancelFunc, error)

// rueidislockPeer is a locker over one server: that is all it knows.
type rueidislockPeer struct {
	locker rueidislock.Locker
	call   rueidislockCall
}

func openRueidislock(addr string, call rueidislockCall) (*rueidislockPeer, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockPeer{locker, call}, nil
}

func (p *rueidislockPeer) lock(ctx context.Context, name string) (held, error) {
	_, cancel, err := p.call(p.locker, ctx, name)
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
