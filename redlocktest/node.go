package redlocktest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
	"github.com/redlock-go/redlock/internal/test/embedded"
)

// bootTimeout bounds the commands to a miniredis that has no clients yet.
const bootTimeout = 10 * time.Second

// node is one miniredis behind a listener of its own. miniredis does not listen itself,
// since the server must be ready, its scripts deleted and its INFO set, before the first
// client connects.
type node struct {
	addr  string
	redis *miniredis.Miniredis
	leave func() // returns the port, once

	mu       sync.Mutex // protects what follows; held through start and stop
	listener net.Listener
	accepts  sync.WaitGroup
}

// newNode starts a node at a free address.
func newNode() (*node, error) {
	n := &node{redis: miniredis.NewMiniRedis()}
	n.redis.ClockTTL(true)
	listener, port, err := ports.take()
	if err != nil {
		return nil, err
	}
	n.addr = listener.Addr().String()
	n.leave = sync.OnceFunc(func() { ports.giveBack(port) })
	if err := n.serve(listener); err != nil {
		n.leave()
		return nil, err
	}
	return n, nil
}

func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", n.addr)
	if err != nil {
		return err
	}
	return n.serve(listener)
}

// serve boots the server and accepts clients. It owns the listener.
func (n *node) serve(listener net.Listener) error {
	if err := n.boot(); err != nil {
		n.redis.Close()
		return errors.Join(err, listener.Close())
	}
	n.listener = listener
	clients := n.redis.Server()
	n.accepts.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			embedded.Exempt(func() { clients.ServeConn(conn) })
		}
	})
	return nil
}

// stop waits for the accepting goroutine before it closes the server: a closed server must
// not get another connection.
func (n *node) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener == nil {
		return
	}
	n.listener.Close()
	n.listener = nil
	n.accepts.Wait()
	n.redis.Close()
}

// close stops the node for good: others may have its address.
func (n *node) close() {
	n.stop()
	n.leave()
}

// boot starts the server, still without a listener. As after a restart of Redis, it has no
// scripts and a new run_id.
func (n *node) boot() error {
	pipe, err := n.redis.Dial()
	if err != nil {
		return err
	}
	conn := redis.NewConn(pipe, bootTimeout, bootTimeout)
	defer conn.Close()
	if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
		return err
	}
	to, scripts := n.redis.Server(), embedded.NewScripts()
	answer := answerLikeRedis()
	to.SetPreHook(func(client *server.Peer, command string, args ...string) bool {
		return scripts.Hook(to, client, command, args) || !scripts.IsOwn(client) && answer(client, command, args...)
	})
	return nil
}

// answerLikeRedis answers commands that miniredis does not know: INFO, with the fields that
// a client checks before it trusts a server, and CLIENT ID and CLIENT KILL.
func answerLikeRedis() server.Hook {
	id := make([]byte, 20)
	rand.Read(id)
	info := "# Server\r\nrun_id:" + hex.EncodeToString(id) +
		"\r\n# Memory\r\nmaxmemory_policy:noeviction" +
		"\r\n# Replication\r\nrole:master\r\n"
	connections := &clients{ids: make(map[*server.Peer]int64)}
	return func(client *server.Peer, command string, args ...string) bool {
		if command != "INFO" || client.Closed() {
			return connections.answer(client, command, args...)
		}
		client.WriteBulk(info)
		return true
	}
}
