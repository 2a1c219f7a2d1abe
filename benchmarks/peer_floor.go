package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/protocol"
)

var floor = contender{
	name: "floor",
	about: "no lock logic: the library's own commands, one connection per node shared by all goroutines, " +
		"all that is asked meanwhile encoded once and sent to each node in one write, returns at a majority's answers",
	open: func(s site) (peer, error) { return openFloor(s) },
}

const (
	floorTTL    = "10000"                              // milliseconds, the library's default
	floorOwner  = "0123456789abcdef0123456789@floor:1" // about as long as the library's owners
	floorRecord = "floor:record"                       // a hash of counters of its own
	floorServer = "floor:members"                      // in place of the server's list of masters
	floorList   = "0123456789abcdef"                   // that list's name
	floorAhead  = 4096                                 // how many batches may be unanswered
)

var errFloorRefused = errors.New("floor: a majority of the nodes refused")

// floorPeer does the least that any library has to do: it sends a command to every node and waits
// for a majority of the answers. It has no timeouts, no rollback and no checks of the nodes, and
// its owner is always the same. As all nodes get the same command, it encodes it once.
type floorPeer struct {
	renew, release string // SHA-1
	nodes          []*floorNode

	mu      sync.Mutex // protects what follows
	batch   floorBatch // what is asked and not yet written
	spare   []byte     // a buffer that was written
	writing bool
}

// floorBatch is the commands of one write, and the calls that wait for their answers.
type floorBatch struct {
	bytes []byte
	calls []*floorCall
}

// floorCall is one call at all nodes.
type floorCall struct {
	answers int // of each node; the first shows whether it consents
	yes, no atomic.Int32
	verdict chan error
}

// floorNode is the connection to one node.
type floorNode struct {
	net.Conn
	in  *bufio.Reader
	due chan []*floorCall // the batches that were written to it
}

func openFloor(s site) (*floorPeer, error) {
	renew, release := protocol.Renew, protocol.Release
	f := &floorPeer{renew: renew.SHA().(string), release: release.SHA().(string)}
	for _, addr := range s.addrs {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		n := &floorNode{conn, bufio.NewReaderSize(conn, 64<<10), make(chan []*floorCall, floorAhead)}
		f.nodes = append(f.nodes, n)
		if err := n.load(s.database(), renew.Text().(string), release.Text().(string)); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	for _, n := range f.nodes {
		go n.read(int32(len(f.nodes)/2 + 1)) // ends with the connection
	}
	return f, nil
}

// load chooses this library's database, sets the counter that an acquire counts on and the list that a renewal
// compares, and loads the scripts.
func (n *floorNode) load(database string, scripts ...string) error {
	commands := appendCommand(nil, "SELECT", strings.TrimPrefix(database, "/"))
	commands = appendCommand(commands, "HSETNX", floorRecord, "0", "1")
	commands = appendCommand(commands, "HSETNX", floorServer, "id", floorList)
	for _, script := range scripts {
		commands = appendCommand(commands, "SCRIPT", "LOAD", script)
	}
	if _, err := n.Write(commands); err != nil {
		return err
	}
	_, err := n.consents(len(scripts) + 3)
	return err
}

// ask queues the commands of a call and waits for the majority. A caller that finds no other writer
// writes for all, until the queue is empty.
func (f *floorPeer) ask(answers int, encode func([]byte) []byte) error {
	c := &floorCall{answers: answers, verdict: make(chan error, 1)}
	f.mu.Lock()
	f.batch.bytes = encode(f.batch.bytes)
	f.batch.calls = append(f.batch.calls, c)
	if f.writing {
		f.mu.Unlock()
		return <-c.verdict
	}
	f.writing = true
	f.mu.Unlock()
	if err := f.write(); err != nil {
		return err
	}
	return <-c.verdict
}

// write sends what is queued. It lets other callers join first, as any good pipeline does.
func (f *floorPeer) write() error {
	for {
		runtime.Gosched()
		f.mu.Lock()
		batch := f.batch
		if len(batch.calls) == 0 {
			f.writing = false
			f.mu.Unlock()
			return nil
		}
		f.batch = floorBatch{bytes: f.spare[:0], calls: make([]*floorCall, 0, len(batch.calls))}
		f.mu.Unlock()
		for _, n := range f.nodes {
			n.due <- batch.calls
			if _, err := n.Write(batch.bytes); err != nil {
				return err
			}
		}
		f.mu.Lock()
		f.spare = batch.bytes
		f.mu.Unlock()
	}
}

// read gives each answer to its call, until the connection ends.
func (n *floorNode) read(majority int32) {
	for batch := range n.due {
		for _, c := range batch {
			yes, err := n.consents(c.answers)
			if err != nil {
				return
			}
			c.count(yes, majority)
		}
	}
}

// count takes one answer; the one that makes a majority is the verdict.
func (c *floorCall) count(yes bool, majority int32) {
	switch {
	case yes && c.yes.Add(1) == majority:
		c.verdict <- nil
	case !yes && c.no.Add(1) == majority:
		c.verdict <- errFloorRefused
	}
}

// lock sends the library's commands for a lock without waiters.
func (f *floorPeer) lock(_ context.Context, name string) (held, error) {
	key := "redlock:" + name
	err := f.ask(4, func(to []byte) []byte {
		to = appendCommand(to, "SET", key, floorOwner, "PX", floorTTL, "NX")
		to = appendCommand(to, "HINCRBY", floorRecord, "0", "1")
		to = appendCommand(to, "ZCARD", "redlock::queue:"+key)
		return appendCommand(to, "GET", key)
	})
	if err != nil {
		return nil, err
	}
	return floorHeld{f, key}, nil
}

// close must not run beside a call.
func (f *floorPeer) close() error {
	var err error
	for _, n := range f.nodes {
		close(n.due)
		err = errors.Join(err, n.Close())
	}
	return err
}

type floorHeld struct {
	floor *floorPeer
	key   string
}

func (h floorHeld) Unlock(context.Context) error {
	return h.floor.ask(1, func(to []byte) []byte {
		return appendCommand(to, "EVALSHA", h.floor.release, "3",
			h.key, "redlock::queue:"+h.key, "redlock::readers:"+h.key, floorOwner)
	})
}

func (h floorHeld) Extend(context.Context) error {
	return h.floor.ask(1, func(to []byte) []byte {
		return appendCommand(to, "EVALSHA", h.floor.renew, "3", h.key, floorRecord, floorServer, floorOwner, floorTTL, floorList)
	})
}

// appendCommand encodes a command as clients send it.
func appendCommand(to []byte, words ...string) []byte {
	to = appendHead(to, '*', len(words))
	for _, word := range words {
		to = appendHead(to, '$', len(word))
		to = append(to, word...)
		to = append(to, '\r', '\n')
	}
	return to
}

func appendHead(to []byte, kind byte, n int) []byte {
	to = strconv.AppendInt(append(to, kind), int64(n), 10)
	return append(to, '\r', '\n')
}

// consents reads the answers to one call. The first shows whether the node consents.
func (n *floorNode) consents(answers int) (bool, error) {
	yes, err := n.answer()
	for range answers - 1 {
		if err == nil {
			_, err = n.answer()
		}
	}
	return yes, err
}

// answer reads one reply, and reports whether it is a number above 0 or a string: then the
// node did what was asked. Refusals are nil, 0 or an array.
func (n *floorNode) answer() (bool, error) {
	line, err := n.in.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	if len(line) < 4 {
		return false, fmt.Errorf("floor: unexpected answer %q", line)
	}
	switch value := line[1 : len(line)-2]; line[0] {
	case '+':
		return true, nil
	case ':':
		return value[0] != '0' && value[0] != '-', nil
	case '$':
		size, _ := strconv.Atoi(string(value))
		if size < 0 {
			return false, nil
		}
		_, err := n.in.Discard(size + 2)
		return true, err
	case '*':
		elements, _ := strconv.Atoi(string(value))
		for range elements {
			if _, err := n.answer(); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("floor: unexpected answer %q", line)
}
