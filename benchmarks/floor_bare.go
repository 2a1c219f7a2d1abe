package main

import (
	"context"
	"errors"
)

var floorBare = contender{
	name:  "floor-bare",
	about: "the floor of one goroutine: a bare loop that writes the library's own commands to all nodes and returns at a majority's answers",
	kind:  bare,
	alone: true,
	open:  func(s site) (peer, error) { return openBare(s) },
}

var errFloorRefused = errors.New("floor: a majority of the nodes refused")

// bareAhead is how many answers of the slowest nodes may be outstanding.
const bareAhead = 4096

// bareFloor serves one caller at a time.
type bareFloor struct {
	wires    []*floorWire
	due      []chan int // for each node, the number of answers to each call, in turn
	commands *floorCommands
	answers  chan bareAnswer
	call     int // counts the calls
	command  []byte
}

// bareAnswer is a node's answer to a call.
type bareAnswer struct {
	call int
	yes  bool
	err  error
}

func openBare(s site) (*bareFloor, error) {
	wires, commands, err := dialFloor(s)
	if err != nil {
		return nil, err
	}
	f := &bareFloor{wires: wires, commands: commands, answers: make(chan bareAnswer, bareAhead)}
	for _, w := range wires {
		due := make(chan int, bareAhead)
		f.due = append(f.due, due)
		go f.read(w, due) // ends with the connection
	}
	return f, nil
}

// read numbers a node's answers: they come in the order of the calls.
func (f *bareFloor) read(w *floorWire, due <-chan int) {
	call := 0
	for n := range due {
		call++
		yes, err := w.answers(n)
		f.answers <- bareAnswer{call, yes, err}
		if err != nil {
			return
		}
	}
}

func (f *bareFloor) ask(command []byte, answers int) error {
	f.command = command
	f.call++
	for i, w := range f.wires {
		f.due[i] <- answers
		if _, err := w.Write(command); err != nil {
			return err
		}
	}
	for yes, no := 0, 0; ; {
		a := <-f.answers
		switch {
		case a.err != nil:
			return a.err
		case a.call != f.call: // one that an earlier call did not wait for
		case a.yes:
			yes++
		default:
			no++
		}
		if yes > len(f.wires)/2 {
			return nil
		}
		if no > len(f.wires)/2 {
			return errFloorRefused
		}
	}
}

func (f *bareFloor) lock(_ context.Context, name string) (held, error) {
	key := "redlock:" + name
	if err := f.ask(f.commands.appendAcquire(f.command[:0], key), f.commands.acquireAnswers()); err != nil {
		return nil, err
	}
	return bareHeld{f, key}, nil
}

func (f *bareFloor) close() error {
	for _, due := range f.due {
		close(due)
	}
	return closeWires(f.wires)
}

type bareHeld struct {
	floor *bareFloor
	key   string
}

func (h bareHeld) Unlock(context.Context) error {
	return h.floor.ask(h.floor.commands.appendRelease(h.floor.command[:0], h.key), 1)
}

func (h bareHeld) Extend(context.Context) error {
	return h.floor.ask(h.floor.commands.appendRenew(h.floor.command[:0], h.key), 1)
}
