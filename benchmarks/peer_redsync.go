package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

// idlePerPool lets a pool keep every connection that a full round needs: with
// redigo's default redsync would spend its time on dialling.
const idlePerPool = 1024

var redsyncDefault = contender{
	name:  "redsync",
	about: fmt.Sprintf("redsync v4.18.1, default settings, redigo pools (MaxIdle %d, MaxActive unlimited)", idlePerPool),
	open:  func(addrs []string) (peer, error) { return openRedsync(addrs) },
}

var redsyncFailFast = contender{
	name:  "redsync-failfast",
	about: "the same with WithFailFast(true): does not wait for a minority, and may leave its keys there",
	open: func(addrs []string) (peer, error) {
		return openRedsync(addrs, redsync.WithFailFast(true))
	},
}

// redsyncPeer is redsync on redigo.
type redsyncPeer struct {
	client  *redsync.Redsync
	pools   []*redis.Pool
	options []redsync.Option
}

func openRedsync(addrs []string, options ...redsync.Option) (*redsyncPeer, error) {
	p := &redsyncPeer{options: options}
	adapted := make([]redsyncredis.Pool, len(addrs))
	for i, addr := range addrs {
		pool := &redis.Pool{
			MaxIdle: idlePerPool,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr)
			},
		}
		p.pools = append(p.pools, pool)
		adapted[i] = redsyncredigo.NewPool(pool)
	}
	p.client = redsync.New(adapted...)
	return p, nil
}

func (p *redsyncPeer) lock(ctx context.Context, name string) (held, error) {
	mutex := p.client.NewMutex(name, p.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{mutex}, nil
}

func (p *redsyncPeer) close() error {
	var err error
	for _, pool := range p.pools {
		err = errors.Join(err, pool.Close())
	}
	return err
}

// redsyncHeld is one pointer, so that it costs redsync no allocation.
type redsyncHeld struct {
	mutex *redsync.Mutex
}

func (h redsyncHeld) Unlock(ctx context.Context) error {
	_, err := h.mutex.UnlockContext(ctx)
	return err
}
