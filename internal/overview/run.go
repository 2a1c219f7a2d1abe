package overview

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

const (
	// lookEvery is how often the visible rows are looked at.
	lookEvery = time.Second

	// restFactor is the rest after a pass, in passes: they take a quarter of the time.
	restFactor = 3

	// minRest bounds how often the servers are asked for all keys, where they have few.
	minRest = time.Second
)

// running is the state of the Model's goroutine.
type running struct {
	*Model
	picture picture
	masters masters
	views   map[View]*shown
	ask     asker

	listed  time.Time // as Snapshot has them
	took    time.Duration
	passErr error

	restUntil time.Duration // no pass begins before then
	newUntil  time.Duration // until then, the last whole pass is current for a new watcher
	isCurrent bool          // a pass has ended since there is a watcher
	pinged    bool          // the masters were looked at since then
	changes   uint64        // counts the changes that watchers see
	common    *Snapshot     // what the snapshots of all views share, at commonOf changes
	commonOf  uint64
}

// run looks at the locks while there are watchers, until ctx ends; once for each Model. It returns
// when all that it has started has ended.
func (m *Model) run(ctx context.Context) {
	r := &running{Model: m, ask: newAsker(m.source, m.opts.Clock), views: make(map[View]*shown), picture: newPicture()}
	for ctx.Err() == nil {
		if len(r.current()) > 0 {
			r.watch(ctx)
			continue
		}
		select {
		case <-m.changed:
		case <-ctx.Done():
		}
	}
}

// current returns the watchers, and their views.
func (m *Model) current() map[*Watcher]View {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[*Watcher]View, len(m.watchers))
	for w, v := range m.watchers {
		all[w] = v
	}
	return all
}

// watch looks at the locks while there are watchers.
func (r *running) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var started sync.WaitGroup
	defer started.Wait()
	defer cancel()
	r.isCurrent, r.pinged = !r.listed.IsZero() && r.passErr == nil && r.opts.Clock() < r.newUntil, false

	passes, rounds := make(chan pass), make(chan round, 1)
	listing, looking := false, false
	lookAt := r.opts.Clock()
	for {
		watchers := r.current()
		if len(watchers) == 0 || ctx.Err() != nil {
			if listing { // what it has cost counts
				r.rest(r.opts.Clock() - r.restUntil)
			}
			return
		}
		r.publish(watchers)
		now := r.opts.Clock()
		if !listing && now >= r.restUntil {
			listing, r.restUntil = true, now
			quarantined := r.masters.quarantined()
			started.Go(func() {
				listAll(ctx, r.source, r.opts.Pattern, r.opts.Clock, quarantined, func(p pass) {
					select {
					case passes <- p:
					case <-ctx.Done():
					}
				})
			})
		}
		if !looking && now >= lookAt {
			looking, lookAt = true, now+lookEvery
			questions, l := r.questions(), looker{r.source, r.ask, r.opts.Clock, r.masters.quarantined()}
			started.Go(func() { rounds <- l.look(ctx, questions) })
		}
		wake := time.NewTimer(r.untilNext(now, listing, looking, lookAt))
		select {
		case <-r.changed:
		case p := <-passes:
			listing = p.isPart
			r.list(&p)
		case s := <-rounds:
			looking = false
			r.look(&s)
		case <-wake.C:
		case <-ctx.Done():
		}
		wake.Stop()
	}
}

// untilNext returns the time until the next pass or look is due.
func (r *running) untilNext(now time.Duration, listing, looking bool, lookAt time.Duration) time.Duration {
	wait := time.Hour
	if !listing {
		wait = min(wait, r.restUntil-now)
	}
	if !looking {
		wait = min(wait, lookAt-now)
	}
	return max(wait, time.Millisecond)
}

// rest begins the pause after a pass.
func (r *running) rest(took time.Duration) {
	r.restUntil = r.opts.Clock() + max(restFactor*took, minRest)
}

// questions returns what a look asks: the visible rows of all views, MaxVisible at most, and of each
// view the first ones.
func (r *running) questions() *questions {
	q := &questions{keys: make(map[string][]key)}
	asked := make(map[*entry]bool)
	for i := range MaxVisible {
		for _, s := range r.views {
			visible := s.visible()
			if i < len(visible) && !asked[visible[i]] && len(asked) < MaxVisible {
				asked[visible[i]] = true
				q.add(visible[i])
			}
		}
	}
	return q
}

// list adds a pass to the picture.
func (r *running) list(p *pass) {
	if p.isPart {
		if r.listed.IsZero() {
			r.change(func() []*entry { return r.picture.add(p.found) })
		}
		return
	}
	r.rest(p.ended - p.begun)
	failedBefore := r.passErr != nil
	if r.passErr = p.err; p.err != nil {
		r.change(func() []*entry { return r.picture.add(p.found) })
	} else {
		r.change(func() []*entry { return r.picture.replace(p.found, p.begun) })
		r.listed, r.took, r.newUntil = r.wallAt(p.ended), p.ended-p.begun, r.restUntil
	}
	if failedBefore || p.err != nil || !r.isCurrent {
		r.changes++
	}
	r.isCurrent = true
}

// look adds the results of a look to the picture.
func (r *running) look(s *round) {
	r.pinged = true
	r.change(func() []*entry { return r.picture.refresh(s.sightings) })
	if r.masters.observe(s.stats, s.ping, r.opts.Trips, r.opts.Wall()) || r.isStale() {
		r.changes++
	}
}

// change changes the picture, and inserts fresh entries into the views.
func (r *running) change(make func() (fresh []*entry)) {
	version := r.picture.version
	fresh := make()
	if r.picture.version == version {
		return
	}
	for _, v := range r.views {
		if v.version == version && v.order != nil {
			v.amend(&r.picture, fresh)
		}
	}
	r.changes++
}

// isStale reports whether the last pass failed, or the masters have no quorum.
func (r *running) isStale() bool {
	return r.passErr != nil || r.pinged && !r.masters.headline.Available
}

// publish sends each watcher the newest snapshot of its view, if it is new.
func (r *running) publish(watchers map[*Watcher]View) {
	wanted := make(map[View]bool, len(watchers))
	for w, v := range watchers {
		wanted[v] = true
		s := r.views[v]
		if s == nil {
			s = newShown(v)
			r.views[v] = s
		}
		if !r.isShowable() {
			continue
		}
		r.bringUpToDate(s)
		if w.last != s.last {
			w.last = s.last
			w.deliver(s.last)
		}
	}
	for v := range r.views {
		if !wanted[v] {
			delete(r.views, v)
		}
	}
}

// isShowable reports whether the picture is current, or the first pass takes long.
func (r *running) isShowable() bool {
	return r.pinged && (r.isCurrent || r.listed.IsZero() && len(r.picture.entries) > 0)
}

// bringUpToDate makes a view's newest snapshot, if it is new.
func (r *running) bringUpToDate(s *shown) {
	if s.version != r.picture.version || s.order == nil {
		s.arrange(&r.picture)
	}
	if s.last != nil && s.of == r.changes {
		return
	}
	if r.common == nil || r.commonOf != r.changes {
		r.common, r.commonOf = r.newCommon(), r.changes
	}
	s.last, s.of = s.snapshot(r.common, r.wallAt), r.changes
}

// newCommon makes what the snapshots of all views share.
func (r *running) newCommon() *Snapshot {
	now := r.opts.Wall()
	c := &Snapshot{Taken: now, Headline: r.masters.headline, Masters: r.masters.all, Counts: r.picture.counts(now),
		Listed: r.listed, Took: r.took, Stale: r.isStale()}
	switch {
	case r.passErr != nil:
		c.Cause = causeText(r.passErr)
	case c.Stale:
		c.Cause = r.masters.headline.Text
	}
	return c
}

// causeText returns why a pass failed, in short: the masters have their own causes.
func causeText(err error) string {
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		return printable.Line(err.Error())
	}
	listed, refusal := 0, ""
	for i := range q.Votes {
		switch v := &q.Votes[i]; {
		case v.Outcome == "granted":
			listed++
		case v.Outcome == "refused" && v.Cause != nil && refusal == "":
			refusal = "; " + v.Cause.Error()
		}
	}
	return printable.Line(itoa(listed) + " of " + Counted(len(q.Votes), "master") + " answered, and " + itoa(q.Need) + " must" + refusal)
}

// wallAt turns an instant of the model's clock into wall time.
func (r *running) wallAt(at time.Duration) time.Time { return r.opts.Wall().Add(at - r.opts.Clock()) }
