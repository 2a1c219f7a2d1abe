package overview

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// maxAsked bounds the names in one question: calls queued behind it wait about a millisecond, as
// behind a batch of a listing.
const maxAsked = 50

// asker asks the masters about names of locks or semaphores, and calls show with one answer at a
// time. begun is when it asked, on the model's clock. It returns why it ended early.
type asker func(ctx context.Context, names []string, semaphores bool, show func(s *redlock.Status, begun time.Duration)) error

// newAsker returns an asker: for a client in batches, for other sources name by name.
func newAsker(source Source, clock system.Clock) asker {
	client, is := source.(*redlock.Client)
	if !is {
		return inspector(source, clock)
	}
	return func(ctx context.Context, names []string, semaphores bool, show func(*redlock.Status, time.Duration)) error {
		return peek.Of[redlock.Client, redlock.Status]()(ctx, client, names, semaphores, show)
	}
}

// inspector asks by Inspect, some names at a time.
func inspector(source Source, clock system.Clock) asker {
	return func(ctx context.Context, names []string, _ bool, show func(*redlock.Status, time.Duration)) (failed error) {
		var mu sync.Mutex // protects failed, and calls of show
		var all sync.WaitGroup
		next := make(chan string, len(names))
		for _, name := range names {
			next <- name
		}
		close(next)
		for range min(maxAsked, len(names)) {
			all.Go(func() {
				for name := range next {
					begun := clock()
					s, err := source.Inspect(ctx, name)
					mu.Lock()
					if err == nil || errors.Is(err, redlock.ErrNoQuorum) {
						show(&s, begun)
					} else {
						failed = err
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return failed
	}
}

// questions are what one look asks. The Model's goroutine makes them.
type questions struct {
	locks      []string
	semaphores []string
	keys       map[string][]key // that are known of a semaphore
}

// add adds the names of an entry.
func (q *questions) add(e *entry) {
	if e.kind != Permits {
		q.locks = append(q.locks, e.names()...)
		return
	}
	name := e.facts[0].key.name
	q.semaphores = append(q.semaphores, name)
	for _, f := range e.facts {
		q.keys[name] = append(q.keys[name], f.key)
	}
}

// sighting is the masters' answer about a name.
type sighting struct {
	facts   []*fact
	none    []key // that have nothing
	nothing fact  // the fact about them
	slack   time.Duration
}

// round is the result of a look.
type round struct {
	sightings []sighting
	ping      error
	stats     []redlock.NodeStats // after the ping
}

// looker runs looks.
type looker struct {
	source      Source
	ask         asker
	clock       system.Clock
	quarantined []bool
}

// look pings the masters, and asks them all questions.
func (l *looker) look(ctx context.Context, q *questions) (r round) {
	var all sync.WaitGroup
	all.Go(func() {
		r.ping = l.source.Ping(ctx)
		r.stats = l.source.Stats().Nodes
	})
	r.sightings = l.askAll(ctx, q)
	all.Wait()
	return r
}

// askAll asks all questions, and leaves out those that fail.
func (l *looker) askAll(ctx context.Context, q *questions) (all []sighting) {
	askLocks := func(names []string) {
		_ = l.ask(ctx, names, false, func(s *redlock.Status, begun time.Duration) {
			all = append(all, l.sight(s, begun, keysOf(s.Name)))
		})
	}
	askLocks(q.locks)
	var slots []string // a user without the right to look at semaphores sees a slot as a lock only
	_ = l.ask(ctx, q.semaphores, true, func(s *redlock.Status, begun time.Duration) {
		seen := l.sight(s, begun, q.keys[s.Name])
		if !s.Incomplete {
			seen.none = slices.DeleteFunc(seen.none, func(k key) bool {
				if k.slot >= 0 {
					slots = append(slots, k.raw())
				}
				return k.slot >= 0
			})
		}
		all = append(all, seen)
	})
	askLocks(slots)
	return all
}

// keysOf returns the keys that the lock of a name can have in the picture.
func keysOf(name string) []key {
	if base, slot, is := protocol.SemaphoreOf(name); is {
		return []key{{name, noSlot}, {base, slot}}
	}
	return []key{{name, noSlot}}
}

// sight returns the masters' answer about some keys, which they were asked for at begun.
func (l *looker) sight(s *redlock.Status, begun time.Duration, keys []key) sighting {
	r := reading{at: begun, quarantined: l.quarantined}
	seen := sighting{facts: r.facts(s), slack: l.clock() - begun + lookSlack}
	seen.nothing = fact{at: begun, state: Free, words: r.letters(s, func(*redlock.NodeStatus) bool { return false })}
	if s.Incomplete {
		seen.nothing.state, seen.nothing.says = Incomplete, saying(s)
		for _, f := range seen.facts {
			f.says = seen.nothing.says
		}
	}
	for _, k := range keys {
		if !slices.ContainsFunc(seen.facts, func(f *fact) bool { return f.key == k }) {
			seen.none = append(seen.none, k)
		}
	}
	return seen
}

// pass is one listing of all names.
type pass struct {
	found  []*fact
	begun  time.Duration
	ended  time.Duration
	err    error
	isPart bool // more follows
}

// listAll lists all names. It reports what it has found each second, and at the end.
func listAll(ctx context.Context, source Source, pattern string, clock system.Clock, quarantined []bool, report func(pass)) {
	p := pass{begun: clock()}
	reported := p.begun
	for s, err := range source.Locks(ctx, pattern) {
		if err != nil {
			p.err = err
			break
		}
		r := reading{at: clock(), quarantined: quarantined}
		for _, f := range r.facts(&s) {
			if s.Incomplete {
				f.says = saying(&s)
			}
			p.found = append(p.found, f)
		}
		if r.at-reported >= lookEvery {
			reported = r.at
			part := p
			part.isPart = true
			report(part)
		}
	}
	p.ended = clock()
	report(p)
}
