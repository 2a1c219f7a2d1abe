package testnet

import (
	"fmt"
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

func (t *Tape) Trace() *redlock.Trace {
	return &redlock.Trace{
		CallStart: RecordOn[redlock.CallStart](t), CallEnd: RecordOn[redlock.CallEnd](t),
		BallotStart: RecordOn[redlock.BallotStart](t), BallotVote: RecordOn[redlock.BallotVote](t), BallotEnd: RecordOn[redlock.BallotEnd](t),
		WaitStart: RecordOn[redlock.WaitStart](t), WaitEnd: RecordOn[redlock.WaitEnd](t),
		LeaseGranted: RecordOn[redlock.LeaseGranted](t), LeaseRenewed: RecordOn[redlock.LeaseRenewed](t), LeaseDanger: RecordOn[redlock.LeaseDanger](t), LeaseWanted: RecordOn[redlock.LeaseWanted](t),
		LeaseLost: RecordOn[redlock.LeaseLost](t), LeaseReleased: RecordOn[redlock.LeaseReleased](t),
		NodeUp: RecordOn[redlock.NodeUp](t), NodeDown: RecordOn[redlock.NodeDown](t), NodeStalled: RecordOn[redlock.NodeStalled](t),
		NodeQuarantined: RecordOn[redlock.NodeQuarantined](t),
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
		kind := strings.TrimPrefix(fmt.Sprintf("%T", e), "redlock.")
		switch e := e.(type) {
		case redlock.CallStart:
			kind += " " + e.Op
		case redlock.CallEnd:
			kind += " " + e.Op
		case redlock.BallotStart:
			kind += " " + e.Op
		case redlock.BallotEnd:
			kind += " " + e.Op + " " + e.Outcome.String()
		case redlock.BallotVote:
			if e.Late {
				continue // its place among the others is not certain
			}
			kind += " " + e.Outcome.String()
		}
		all = append(all, kind)
	}
	return all
}
