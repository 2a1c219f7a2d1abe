package testnet

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/redlock-go/redlock"
)

// Tape has all events that hooks got.
type Tape struct {
	Mu     sync.Mutex // protects events
	Events []any
}

func RecordOn[E any](t *Tape) func(E) {
	return func(e E) {
		t.Mu.Lock()
		defer t.Mu.Unlock()
		t.Events = append(t.Events, e)
	}
}

// Events of the hooks that report a start or an end, one type for each hook.
type (
	CallStart   redlock.CallEvent
	CallEnd     redlock.CallEvent
	BallotStart redlock.BallotEvent
	BallotEnd   redlock.BallotEvent
	WaitStart   redlock.WaitEvent
	WaitEnd     redlock.WaitEvent
)

func (t *Tape) Trace() *redlock.Trace {
	callStart, callEnd := RecordOn[CallStart](t), RecordOn[CallEnd](t)
	ballotStart, ballotEnd := RecordOn[BallotStart](t), RecordOn[BallotEnd](t)
	waitStart, waitEnd := RecordOn[WaitStart](t), RecordOn[WaitEnd](t)
	return &redlock.Trace{
		CallStart:   func(e redlock.CallEvent) { callStart(CallStart(e)) },
		CallEnd:     func(e redlock.CallEvent) { callEnd(CallEnd(e)) },
		BallotStart: func(e redlock.BallotEvent) { ballotStart(BallotStart(e)) },
		BallotVote:  RecordOn[redlock.BallotVote](t),
		BallotEnd:   func(e redlock.BallotEvent) { ballotEnd(BallotEnd(e)) },
		WaitStart:   func(e redlock.WaitEvent) { waitStart(WaitStart(e)) },
		WaitEnd:     func(e redlock.WaitEvent) { waitEnd(WaitEnd(e)) },
		Lease:       RecordOn[redlock.LeaseEvent](t), Node: RecordOn[redlock.NodeEvent](t),
	}
}

// Told returns the events of one kind, in order, once nothing is under way.
func Told[E any](t *Tape) []E {
	synctest.Wait()
	t.Mu.Lock()
	defer t.Mu.Unlock()
	var all []E
	for _, e := range t.Events {
		if e, ok := e.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

// OfLeases returns the events of leases of one kind, in order, once nothing is under way.
func (t *Tape) OfLeases(kind redlock.LeaseEventKind) []redlock.LeaseEvent {
	return slices.DeleteFunc(Told[redlock.LeaseEvent](t), func(e redlock.LeaseEvent) bool { return e.Kind != kind })
}

// OfNodes returns the events of nodes of one kind, in order, once nothing is under way.
func (t *Tape) OfNodes(kind redlock.NodeEventKind) []redlock.NodeEvent {
	return slices.DeleteFunc(Told[redlock.NodeEvent](t), func(e redlock.NodeEvent) bool { return e.Kind != kind })
}

// OnLease returns a Trace that calls do for the events of leases of one kind.
func OnLease(kind redlock.LeaseEventKind, do func(redlock.LeaseEvent)) *redlock.Trace {
	return &redlock.Trace{Lease: func(e redlock.LeaseEvent) {
		if e.Kind == kind {
			do(e)
		}
	}}
}

// Clear forgets the events before.
func (t *Tape) Clear() {
	synctest.Wait()
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.Events = nil
}

// Story is the events in short: their kinds and what they are about.
func (t *Tape) Story() []string {
	synctest.Wait()
	t.Mu.Lock()
	defer t.Mu.Unlock()
	var all []string
	for _, e := range t.Events {
		_, kind, _ := strings.Cut(fmt.Sprintf("%T", e), ".")
		switch e := e.(type) {
		case CallStart:
			kind += " " + e.Op
		case CallEnd:
			kind += " " + e.Op
		case redlock.LeaseEvent:
			kind = "Lease " + string(e.Kind)
		case redlock.NodeEvent:
			kind = "Node " + string(e.Kind)
		case BallotStart:
			kind += " " + e.Op
		case BallotEnd:
			kind += " " + e.Op + " " + string(e.Outcome)
		case redlock.BallotVote:
			if e.Late {
				continue // its place among the others is not certain
			}
			kind += " " + string(e.Outcome)
		}
		all = append(all, kind)
	}
	return all
}
