//go:build full

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	memcachedTTL   = 10 // seconds
	memcachedRetry = 100 * time.Millisecond
)

// memcachedAddr is where the server is, once it is started.
var memcachedAddr string

var memcachedOne = contender{
	name: "memcached",
	about: "add and delete by gomemcache on one memcached, what many use; delete does not look whose lock it is; " +
		"a waiter tries again every 100 ms",
	kind:  foreign,
	start: startMemcached,
	open: func(site) (peer, error) {
		client := memcache.New(memcachedAddr)
		client.MaxIdleConns = idlePerPool
		client.Timeout = 2 * time.Second
		return &memcachedPeer{client: client}, client.Ping()
	},
}

func startMemcached() (func(), error) {
	binary, err := find("memcached", "/usr/bin/memcached")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(exec.Command(binary, "-l", host, "-p", port, "-U", "0", "-c", "4096", "-u", "nobody"))
	if err != nil {
		return nil, err
	}
	if err := awaitPort(addr); err != nil {
		p.stop()
		return nil, err
	}
	memcachedAddr = addr
	return p.stop, nil
}

// memcachedPeer locks by adding a key, which fails where it exists.
type memcachedPeer struct {
	client *memcache.Client
	owners atomic.Int64
}

func (p *memcachedPeer) lock(ctx context.Context, name string) (held, error) {
	owner := fmt.Appendf(nil, "owner-%d", p.owners.Add(1))
	for {
		err := p.client.Add(&memcache.Item{Key: name, Value: owner, Expiration: memcachedTTL})
		if err == nil {
			return memcachedHeld{p.client, name}, nil
		}
		if !errors.Is(err, memcache.ErrNotStored) {
			return nil, err
		}
		if err := pause(ctx, memcachedRetry); err != nil {
			return nil, err
		}
	}
}

func (p *memcachedPeer) close() error { return p.client.Close() }

type memcachedHeld struct {
	client *memcache.Client
	name   string
}

func (h memcachedHeld) Unlock(context.Context) error { return h.client.Delete(h.name) }
