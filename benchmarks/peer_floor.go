package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// scriptsDir is where this library keeps its scripts, seen from this module's
// root: the floor sends the very same commands as the library.
var scriptsDir = filepath.Join("..", "scripts")

var floorLoop = contender{
	name:  "floor",
	about: "no lock logic: the library's own commands on one pipelined redigo connection per node, returns at the third answer",
	open:  func(addrs []string) (peer, error) { return openFloor(addrs) },
}

const (
	floorTTL   = "10000"                              // milliseconds, the library's default
	floorOwner = "floor:1 0123456789abcdef0123456789" // about as long as the library's owners
	floorAhead = 4096                                 // calls per node that may be unanswered
)

// floor is what any library over redigo has to do at least: send a command to
// every node and wait for a majority of the answers. It has no timeouts, no
// rollback, no health, and its owner is always the same.
type floor struct {
	nodes   []*floorNode
	quorum  int32
	release any // SHA-1 of the script
}

// floorNode is one connection. Callers write to it, one goroutine reads.
type floorNode struct {
	conn    redis.Conn
	waiting chan *floorCall // in the order of the replies that are due

	mu    sync.Mutex // protects what follows, and the order of waiting
	dirty bool       // something was sent and not flushed
}

// floorCall is one command at all nodes.
type floorCall struct {
	quorum  int32
	yes, no atomic.Int32
	verdict chan error
}

var errFloorRefused = errors.New("floor: a majority of the nodes refused")

func openFloor(addrs []string) (*floor, error) {
	f := &floor{quorum: int32(len(addrs)/2 + 1)}
	for _, addr := range addrs {
		conn, err := redis.Dial("tcp", addr)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		n := &floorNode{conn: conn, waiting: make(chan *floorCall, floorAhead)}
		f.nodes = append(f.nodes, n)
		f.release, err = loadScript(conn, "release.lua")
		go n.read()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

// loadScript puts a script of the library into a node and returns its SHA-1.
func loadScript(conn redis.Conn, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(scriptsDir, file))
	if err != nil {
		return "", fmt.Errorf("the floor needs the library's scripts, start it in the folder benchmarks: %w", err)
	}
	return redis.String(conn.Do("SCRIPT", "LOAD", text))
}

func (f *floor) lock(_ context.Context, name string) (held, error) {
	key := "redlock:" + name
	// What the library sends to servers since 7.0.
	if err := f.call("SET", key, floorOwner, "PX", floorTTL, "NX", "GET"); err != nil {
		return nil, err
	}
	return floorHeld{f, key}, nil
}

type floorHeld struct {
	floor *floor
	key   string
}

func (h floorHeld) Unlock(context.Context) error {
	return h.floor.call("EVALSHA", h.floor.release, "1", h.key, floorOwner)
}

// call sends one command to all nodes and waits for the majority. Where others
// are at it too, it lets them join the flush, as any good pipeline does.
func (f *floor) call(command string, args ...any) error {
	c := &floorCall{quorum: f.quorum, verdict: make(chan error, 1)}
	crowded := false
	for _, n := range f.nodes {
		if err := n.send(c, command, args); err != nil {
			return err
		}
		crowded = crowded || len(n.waiting) > 2
	}
	if crowded {
		runtime.Gosched()
	}
	for _, n := range f.nodes {
		if err := n.flush(); err != nil {
			return err
		}
	}
	return <-c.verdict
}

func (n *floorNode) send(c *floorCall, command string, args []any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting <- c
	n.dirty = true
	return n.conn.Send(command, args...)
}

func (n *floorNode) flush() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.dirty {
		return nil
	}
	n.dirty = false
	return n.conn.Flush()
}

// read gives each reply to its call, until the connection ends.
func (n *floorNode) read() {
	for c := range n.waiting {
		reply, err := n.conn.Receive()
		c.count(err == nil && (reply == int64(1) || reply == nil)) // SET answers nil when it has set
	}
}

// count takes one answer; the one that makes a majority is the verdict.
func (c *floorCall) count(yes bool) {
	if yes {
		if c.yes.Add(1) == c.quorum {
			c.verdict <- nil
		}
		return
	}
	if c.no.Add(1) == c.quorum {
		c.verdict <- errFloorRefused
	}
}

// close must not run beside a call.
func (f *floor) close() error {
	var err error
	for _, n := range f.nodes {
		close(n.waiting)
		err = errors.Join(err, n.conn.Close())
	}
	return err
}
