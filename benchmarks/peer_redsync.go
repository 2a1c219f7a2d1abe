package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
)

// idlePerPool lets a pool keep every connection that a full round needs: with
// redigo's default redsync would spend its time on dialling.
const idlePerPool = 1024

const failFastMeans = ", WithFailFast(true): does not wait for a minority, and may leave its keys there"

var (
	redsyncOnRedigo      = redsyncOn("redsync-redigo", "redigo, MaxIdle 1024", redigoPool, false)
	redsyncOnRedigoFast  = redsyncOn("redsync-redigo"+failFastSuffix, "redigo, MaxIdle 1024", redigoPool, true)
	redsyncOnGoRedis     = redsyncOn("redsync-goredis", "go-redis, PoolSize 1024", goredisPool, false)
	redsyncOnGoRedisFast = redsyncOn("redsync-goredis"+failFastSuffix, "go-redis, PoolSize 1024", goredisPool, true)
	redsyncOnRueidis     = redsyncOn("redsync-rueidis", rueidisMeans, rueidisPool, false)
	redsyncOnRueidisFast = redsyncOn("redsync-rueidis"+failFastSuffix, rueidisMeans, rueidisPool, true)
)

// failFast reports whether a peer is an adapter that does not wait for all nodes, by its name.
func failFast(peer string) bool { return strings.HasSuffix(peer, failFastSuffix) }

const failFastSuffix = "-failfast"

func redsyncOn(name, adapter string, connect connector, failFast bool) contender {
	about := "redsync" + versionOf("github.com/go-redsync/redsync/v4") + " on " + adapter
	var options []redsync.Option
	if failFast {
		about += failFastMeans
		options = append(options, redsync.WithFailFast(true))
	} else {
		about += ", default settings (waits for all nodes)"
	}
	return contender{
		name:  name,
		about: about,
		open:  func(s site) (peer, error) { return openRedsync(s, connect, options, false) },
		waits: func(s site) (peer, error) { return openRedsync(s, connect, options, true) },
	}
}

// connector makes redsync's view of one server, and the function that ends it.
type connector func(addr string) (redsyncredis.Pool, func() error, error)

func redigoPool(addr string) (redsyncredis.Pool, func() error, error) {
	pool := &redis.Pool{
		MaxIdle: idlePerPool,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr)
		},
	}
	return redsyncredigo.NewPool(pool), pool.Close, nil
}

func goredisPool(addr string) (redsyncredis.Pool, func() error, error) {
	client := goredisClient(addr)
	return redsyncgoredis.NewPool(client), client.Close, nil
}

// quiet drops the lines that go-redis would print about each failed connection: failures
// are counted in the figures.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func goredisClient(addr string) *goredis.Client {
	goredis.SetLogger(quiet{})
	return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: idlePerPool})
}

// redsyncPeer is redsync on one of the adapters.
type redsyncPeer struct {
	client  *redsync.Redsync
	options []redsync.Option
	ends    []func() error
	waits   bool
}

func openRedsync(s site, connect connector, options []redsync.Option, waits bool) (*redsyncPeer, error) {
	p := &redsyncPeer{options: options, waits: waits}
	var pools []redsyncredis.Pool
	for _, addr := range s.addrs {
		pool, end, err := connect(addr)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		pools = append(pools, pool)
		p.ends = append(p.ends, end)
	}
	p.client = redsync.New(pools...)
	return p, nil
}

// lock waits until ctx ends, as the others do, if waits is set: redsync gives up after 32 tries, 50 to 250 ms apart,
// and is called again then.
func (p *redsyncPeer) lock(ctx context.Context, name string) (held, error) {
	for {
		mutex := p.client.NewMutex(name, p.options...)
		err := mutex.LockContext(ctx)
		if err == nil {
			return redsyncHeld{mutex}, nil
		}
		if !p.waits || ctx.Err() != nil {
			return nil, err
		}
		if err := pause(ctx, time.Millisecond); err != nil { // not a loop without a rest, where calls fail at once
			return nil, err
		}
	}
}

func (p *redsyncPeer) close() error {
	var err error
	for _, end := range p.ends {
		err = errors.Join(err, end())
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

func (h redsyncHeld) Extend(ctx context.Context) error {
	_, err := h.mutex.ExtendContext(ctx)
	return err
}
