package overview

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/system"
)

// maxAsked is about how many names the masters are asked at a time: what is queued behind them waits for about a
// millisecond, as behind a batch of a listing.
const maxAsked = 50

// question is what a look asks of an entry. Run's goroutine makes it.
type question struct {
	entry *entry
	names []string
	keys  []key
}

func newQuestion(e *entry) question {
	q := question{entry: e, names: e.names(), keys: make([]key, len(e.facts))}
	for i, f := range e.facts {
		q.keys[i] = f.key
	}
	return q
}

// round is what the looks of one second have shown.
type round struct {
	looks []look
	ping  error
	stats []redlock.NodeStats // after the ping
}

// lookAround pings the masters and asks them all questions, some at a time.
func lookAround(ctx context.Context, source Source, clock system.Clock, quarantined []bool, questions []question) (r round) {
	var all sync.WaitGroup
	all.Go(func() {
		r.ping = source.Ping(ctx)
		r.stats = source.Stats().Nodes
	})
	found := make([]*look, len(questions))
	next := make(chan int, len(questions))
	for i := range questions {
		next <- i
	}
	close(next)
	for range min(maxAsked, len(questions)) {
		all.Go(func() {
			for i := range next {
				found[i] = questions[i].ask(ctx, source, clock, quarantined)
			}
		})
	}
	all.Wait()
	for _, l := range found {
		if l != nil {
			r.looks = append(r.looks, *l)
		}
	}
	return r
}

// ask asks the masters about an entry. It returns nil if that fails otherwise than for the want of a quorum.
func (q *question) ask(ctx context.Context, source Source, clock system.Clock, quarantined []bool) *look {
	l := &look{entry: q.entry, at: clock(), slack: lookSlack}
	for _, name := range q.names {
		if !l.inspect(ctx, source, clock, quarantined, name) {
			return nil
		}
	}
	for _, k := range q.missing(l) {
		if k.slot >= 0 && l.says == "" { // a user without the right to look at semaphores sees a slot as a lock only
			if !l.inspect(ctx, source, clock, quarantined, k.raw()) {
				return nil
			}
		}
	}
	l.none = q.missing(l)
	return l
}

// inspect adds what the masters say of a name; false if they cannot be asked.
func (l *look) inspect(ctx context.Context, source Source, clock system.Clock, quarantined []bool, name string) bool {
	r := reading{at: clock(), quarantined: quarantined}
	s, err := source.Inspect(ctx, name)
	if err != nil && (!errors.Is(err, redlock.ErrNoQuorum) || ctx.Err() != nil) {
		return false
	}
	l.slack = max(l.slack, clock()-r.at+lookSlack)
	l.facts = append(l.facts, r.facts(&s)...)
	l.words = r.letters(&s, func(*redlock.NodeStatus) bool { return false })
	if s.Incomplete {
		l.says = saying(&s)
	}
	return true
}

// missing returns the keys about which nothing was found.
func (q *question) missing(l *look) (none []key) {
	for _, k := range q.keys {
		if !slices.ContainsFunc(l.facts, func(f *fact) bool { return f.key == k }) {
			none = append(none, k)
		}
	}
	return none
}

// pass is one listing of all names.
type pass struct {
	found  []*fact
	begun  time.Duration
	ended  time.Duration
	err    error
	isPart bool // it goes on
}

// listAll lists all names. It calls report with what it has found each second, and at the end.
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
