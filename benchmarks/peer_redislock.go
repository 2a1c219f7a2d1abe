//go:build redislock

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

const (
	redislockTTL   = 10 * time.Second
	redislockRetry = 100 * time.Millisecond // as its own example has it
)

// It comes first among those for one server.
func init() {
	at := slices.IndexFunc(contenders, func(c contender) bool { return c.single })
	contenders = slices.Insert(contenders, at, redislockOne)
}

var redislockOne = contender{
	name: "redislock",
	about: "bsm/redislock" + versionOf("github.com/bsm/redislock") + " on go-redis, the first server alone, " +
		"ttl 10 s; a waiter tries again every 100 ms, as in its example",
	single: true,
	open: func(s site) (peer, error) {
		client := goredisClient(s.addrs[0])
		return &redislockPeer{client, redislock.New(client)}, nil
	},
}

// redislockPeer locks at one server.
type redislockPeer struct {
	connections *goredis.Client
	client      *redislock.Client
}

func (p *redislockPeer) lock(ctx context.Context, name string) (held, error) {
	for {
		lock, err := p.client.Obtain(ctx, name, redislockTTL, nil)
		if err == nil {
			return redislockHeld{lock}, nil
		}
		if !errors.Is(err, redislock.ErrNotObtained) {
			return nil, err
		}
		if err := pause(ctx, redislockRetry); err != nil {
			return nil, err
		}
	}
}

func (p *redislockPeer) close() error { return p.connections.Close() }

type redislockHeld struct {
	lock *redislock.Lock
}

func (h redislockHeld) Unlock(ctx context.Context) error { return h.lock.Release(ctx) }
func (h redislockHeld) Extend(ctx context.Context) error {
	return h.lock.Refresh(ctx, redislockTTL, nil)
}
