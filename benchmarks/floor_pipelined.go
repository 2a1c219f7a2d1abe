package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

var floorPipelined = contender{
	name: "floor",
	about: "no lock logic: the library's own commands, one connection per node shared by all goroutines, " +
		"all that is asked meanwhile encoded once and sent to each node in one write, returns at a majority's answers",
	kind: bare,
	open: func(s site) (peer, error) { return openFloor(s, false) },
}

var floorUnfenced = contender{
	name:  "floor-unfenced",
	about: "the same with the library's commands without fencing",
	kind:  bare,
	open:  func(s site) (peer, error) { return openFloor(s, true) },
}

// floor is the least that any library has to do: send a command to every node and wait for a
// majority of the answers. It has no timeouts, no rollback and no checks of the nodes, and
// its owner is always the same. As all nodes get the same command, it encodes it once.
type floor struct {
	commands *floorCommands
	majority int32
	nodes    []*floorNode

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

// floorNode reads one connection.
type floorNode struct {
	*floorWire
	due chan []*floorCall // the batches that were written to it
}

// floorCall is one command at all nodes.
type floorCall struct {
	answers int // of each node
	yes, no atomic.Int32
	verdict chan error
}

// floorAhead is how many batches may be unanswered.
const floorAhead = 4096

func openFloor(s site, unfenced bool) (*floor, error) {
	wires, commands, err := dialFloor(s)
	if err != nil {
		return nil, err
	}
	commands.unfenced = unfenced
	f := &floor{commands: commands, majority: int32(len(wires)/2 + 1)}
	for _, w := range wires {
		n := &floorNode{w, make(chan []*floorCall, floorAhead)}
		f.nodes = append(f.nodes, n)
		go f.read(n) // ends with the connection
	}
	return f, nil
}

// ask queues a command and waits for the majority. A caller that finds no other writer writes
// for all, until the queue is empty.
func (f *floor) ask(encode func([]byte, string) []byte, key string, answers int) error {
	c := &floorCall{answers: answers, verdict: make(chan error, 1)}
	f.mu.Lock()
	f.batch.bytes = encode(f.batch.bytes, key)
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

// write sends what is queued. It lets others join first, as any good pipeline
// does where there are any.
func (f *floor) write() error {
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
func (f *floor) read(n *floorNode) {
	var due []*floorCall
	for {
		if len(due) == 0 {
			var open bool
			if due, open = <-n.due; !open {
				return
			}
		}
		yes, err := n.answers(due[0].answers)
		if err != nil {
			return
		}
		due[0].count(yes, f.majority)
		due = due[1:]
	}
}

// count takes one answer; the one that makes a majority is the verdict.
func (c *floorCall) count(yes bool, majority int32) {
	if yes {
		if c.yes.Add(1) == majority {
			c.verdict <- nil
		}
		return
	}
	if c.no.Add(1) == majority {
		c.verdict <- errFloorRefused
	}
}

func (f *floor) lock(_ context.Context, name string) (held, error) {
	key := "redlock:" + name
	if err := f.ask(f.commands.appendAcquire, key, f.commands.acquireAnswers()); err != nil {
		return nil, err
	}
	return floorHeld{f, key}, nil
}

// close must not run beside a call.
func (f *floor) close() error {
	var err error
	for _, n := range f.nodes {
		close(n.due)
		if e := n.Close(); err == nil {
			err = e
		}
	}
	return err
}

type floorHeld struct {
	floor *floor
	key   string
}

func (h floorHeld) Unlock(context.Context) error {
	return h.floor.ask(h.floor.commands.appendRelease, h.key, 1)
}

func (h floorHeld) Extend(context.Context) error {
	return h.floor.ask(h.floor.commands.appendRenew, h.key, 1)
}
