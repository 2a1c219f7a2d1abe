package simredis

import (
	"cmp"
	"container/heap"
	"testing/synctest"
	"time"
)

// The agenda lists the events of a world: deliveries, and the turns that goroutines ask
// for. Each event gets an instant of its own. Virtual time goes on only when all goroutines
// of the bubble wait, so the goroutines that one event wakes do not race with those that
// another one wakes. The agenda does not choose the instants of the timers of clients and
// callers: an event happens after all timers of its instant, when the goroutines that they
// woke wait again. The order of events that are due at the same instant depends on their
// identity, never on which goroutine posted first.

// event is one entry of the agenda.
type event struct {
	due    time.Duration // since the world began
	id     identity
	happen func() // called under the world's lock
}

// identity orders the events that are due at the same instant.
type identity struct {
	client  string        // its name
	server  int           // noServer: the event concerns none
	dialled time.Duration // distinguishes the client's connections to the server
	kind    eventKind
}

type eventKind int

const (
	dialling eventKind = iota
	deliveringToServer
	deliveringToClient
	breaking
	stepping
	turning
	executing
)

const noServer = -1

func (a identity) compare(b identity) int {
	return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.server, b.server),
		cmp.Compare(a.dialled, b.dialled), cmp.Compare(a.kind, b.kind))
}

// agenda is a heap of events.
type agenda []event

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].due, a[j].due), a[i].id.compare(a[j].id)) < 0
}

func (a *agenda) Push(x any) { *a = append(*a, x.(event)) }

func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = event{}
	*a = (*a)[:last]
	return e
}

// post schedules an event for when it is due, or as soon after that as it can have an
// instant of its own. That is never the present instant: other goroutines may yet post
// an event that comes before it. Called under w.mu.
func (w *World) post(due time.Duration, id identity, happen func()) {
	heap.Push(&w.agenda, event{max(due, w.awake()+1), id, happen})
	w.arm()
}

// arm sets the alarm for the first event. Called under w.mu.
func (w *World) arm() {
	if len(w.agenda) == 0 {
		return
	}
	at := max(w.agenda[0].due, w.last+pause(w.last))
	if w.armed > 0 && w.armed <= at {
		return
	}
	w.armed = at
	if w.alarm == nil {
		w.alarm = time.AfterFunc(at-w.awake(), w.next)
	} else {
		w.alarm.Reset(at - w.awake())
	}
}

// pause is the time between an event and one that is due no later: up to half a microsecond, different after each event.
// Clients compute deadlines from a call's begin and from an answer to it. Were events 1 ns apart, two calls that began
// 2 ns and were answered 1 ns apart would end at one instant.
func pause(after time.Duration) time.Duration {
	return 1 + time.Duration(uint64(after)*0x9e3779b97f4a7c15>>55)
}

// next lets the first event happen. Only the alarm calls it, so no two calls wait at once.
func (w *World) next() {
	synctest.Wait() // for the other timers of this instant, and the goroutines that they wake
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = 0
	if now := w.awake(); now > w.last && len(w.agenda) > 0 && w.agenda[0].due <= now {
		w.last = now
		heap.Pop(&w.agenda).(event).happen()
	}
	w.arm()
}

// Turn waits for an instant at which no other event of the world happens. Callers that
// wait at the same instant get their turns in the order of their names.
func (w *World) Turn(name string) { w.await(identity{name, noServer, 0, turning}) }

func (w *World) await(id identity) {
	turn := make(chan struct{})
	w.mu.Lock()
	w.post(0, id, func() { close(turn) })
	w.mu.Unlock()
	<-turn
}
