package holder

import (
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// interval is from one look by turn to the next.
	interval = time.Second

	// leastPause is from one look to the next, at least: the messages of all nodes lead to two or three looks.
	leastPause = 10 * time.Millisecond

	// mostLocks is how many a look is about: a node serves nobody else meanwhile.
	mostLocks = 100
)

// run makes the looks, until the client is closed.
func (b *Board) run() {
	ctx := b.cfg.Life.Context()
	for {
		locks, wait := b.batch()
		if len(locks) == 0 {
			if b.cfg.Life.Await(ctx, b.wake, wait) != nil {
				return
			}
			continue
		}
		if b.cfg.Life.Enter(ctx) != nil {
			return
		}
		b.look(locks)
		b.cfg.Life.Leave()
	}
}

// batch returns the locks that must be looked at, and others as far as the look has room for them. If no look is due,
// it returns how long until one is.
func (b *Board) batch() (locks []*observed, wait time.Duration) {
	now := b.cfg.Clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.order) == 0 {
		return nil, system.Forever
	}
	soonest := b.turn
	for _, o := range b.order {
		soonest = min(soonest, o.due)
	}
	if soonest = max(soonest, b.looked+leastPause); now < soonest {
		return nil, soonest - now
	}
	for i := range b.order {
		if o := b.order[(b.next+i)%len(b.order)]; o.due <= now && len(locks) < mostLocks {
			locks = append(locks, o)
		}
	}
	for range b.order {
		if len(locks) == mostLocks {
			break
		}
		if o := b.order[b.next%len(b.order)]; o.due > now {
			locks = append(locks, o)
		}
		b.next++
	}
	for _, o := range locks {
		if o.due <= now {
			o.due = system.Forever
		}
	}
	b.looked, b.turn = now, now+interval
	return locks, 0
}

var errNoAnswer = errors.New("no answer in time")

// look is one question to all nodes, about several locks.
type look struct {
	began   time.Duration
	need    int
	masters []*admission.Member
	sights  [][]protocol.Sight // by master; nil of one that has not answered
	reasons []error            // by the node's index; why one has not
	silent  int                // masters that have not answered
}

// answer is a master's, and receives it.
type answer struct {
	master int
	node   *admission.Member
	right  *admission.VoteRight
	locks  int // that it is about
	to     chan<- *answer

	sights []protocol.Sight
	err    error
}

// Receive implements pipe.Receiver.
func (a *answer) Receive(value any, err error) {
	a.node.Status.Answered(err)
	if err != nil {
		a.node.HandleError(err)
		a.node.Failed(a.right, err)
	}
	a.sights, a.err = protocol.ReadSights(value, node.Advise(err), a.locks)
	a.to <- a
}

// look asks all masters for locks, and gives their observers what it finds.
func (b *Board) look(locks []*observed) {
	roster := b.cfg.Cluster.Roster.Load()
	l := &look{began: b.cfg.Clock(), need: roster.Need, reasons: make([]error, len(roster.Nodes))}
	for i, n := range roster.Nodes {
		if l.reasons[i] = admission.ErrOtherList; roster.IsMaster(n) {
			l.masters, l.reasons[i] = append(l.masters, n), errNoAnswer
		}
	}
	l.sights, l.silent = make([][]protocol.Sight, len(l.masters)), len(l.masters)
	keys := make([]string, len(locks))
	for i, o := range locks {
		keys[i] = o.key
	}
	answers := make(chan *answer, len(l.masters))
	for i, n := range l.masters {
		a := &answer{master: i, node: n, locks: len(keys), to: answers}
		if err := b.question(a, roster.List, keys); err != nil {
			a.err = err // nothing was sent: nobody else has it
			answers <- a
		}
	}
	l.await(answers, b.cfg.NodeTimeout, len(locks))
	now := b.cfg.Clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range locks {
		if b.observed[o.key] == o {
			b.conclude(o, l, i, now)
			o.began = l.began
			for observer := range o.observers {
				if !observer.served && observer.began <= l.began {
					observer.served = true
					observer.signal()
				}
			}
		}
	}
	if b.unheard && !l.lacksQuorum() {
		for _, o := range b.order {
			if o.last.Reasons != nil {
				b.lookAt(o, 0)
			}
		}
	}
	b.unheard = l.lacksQuorum()
}

// question asks a master of a list about locks, and returns why that cannot be.
func (b *Board) question(a *answer, list *protocol.List, keys []string) (err error) {
	a.right, err = a.node.Right(0)
	switch {
	case err != nil:
		return err
	case a.right.List != list:
		return admission.ErrOtherList
	}
	call := &pipe.Call{Command: "EVAL", Args: protocol.ObserveCall(a.right.Record, keys).Eval(), To: a}
	p, _, err := a.node.Queue(call, a.right.On(), b.cfg.Clock(), b.cfg.NodeTimeout, false)
	if p != nil {
		p.Flush()
	}
	return err
}

// await takes the answers, until they decide who holds each of so many locks, or for a time.
func (l *look) await(answers <-chan *answer, most time.Duration, locks int) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for range l.masters {
		select {
		case a := <-answers:
			l.reasons[l.masters[a.master].Index] = a.err
			if l.sights[a.master] = a.sights; a.err == nil {
				l.silent--
			}
		case <-timer.C:
			return
		}
		if !l.lacksQuorum() && l.isDecided(locks) {
			return
		}
	}
}

func (l *look) isDecided(locks int) bool {
	for i := range locks {
		if _, _, decided := l.find(i); !decided {
			return false
		}
	}
	return true
}

// find returns the holder of a lock that most masters show, and how many show it; with decided, who holds the lock
// whatever the silent masters may say: a quorum shows that holder, or none can have a quorum.
func (l *look) find(lock int) (holder string, nodes int, decided bool) {
	for i := range l.sights {
		shown := l.holder(i, lock)
		if shown == "" || shown == holder {
			continue
		}
		if n := l.count(shown, lock); n > nodes {
			holder, nodes = shown, n
		}
	}
	switch {
	case nodes >= l.need:
		return holder, nodes, true
	case !l.lacksQuorum() && nodes+l.silent < l.need:
		return "", 0, true
	}
	return holder, nodes, false
}

// lacksQuorum reports whether less than a quorum has answered.
func (l *look) lacksQuorum() bool { return len(l.masters)-l.silent < l.need }

// holder returns who holds a lock at a master; "" if nobody does, or the master has not answered.
func (l *look) holder(master, lock int) string {
	if l.sights[master] == nil {
		return ""
	}
	return l.sights[master][lock].Holder
}

// count returns how many masters show a holder of a lock.
func (l *look) count(holder string, lock int) (nodes int) {
	for i := range l.sights {
		if l.holder(i, lock) == holder {
			nodes++
		}
	}
	return nodes
}

// conclude gives the observers of a lock what the look shows. Called under b.mu.
func (b *Board) conclude(o *observed, l *look, lock int, now time.Duration) {
	holder, _, decided := l.find(lock)
	switch {
	case decided:
		left, count := l.lasts(holder, lock)
		b.record(o, holder, left, count, now)
	case !l.lacksQuorum() && (o.sure == "" || l.count(o.sure, lock)+l.silent >= l.need):
		// What was shown before may still be so, and stays: the keys end, or a renewal brings them back.
		b.lookAt(o, now+interval)
	default:
		h := Holding{Owner: holder, Reasons: l.reasons, Took: now - l.began}
		if holder == o.leader {
			h.Token = o.term
		}
		b.show(o, h)
	}
}

// lasts returns the time until less than a quorum has a holder's keys, and the greatest count that any master shows.
func (l *look) lasts(holder string, lock int) (left time.Duration, count int64) {
	var lefts []time.Duration
	for i := range l.sights {
		if l.sights[i] == nil {
			continue
		}
		s := &l.sights[i][lock]
		count = max(count, s.Count)
		if holder != "" && s.Holder == holder {
			lefts = append(lefts, s.Remaining)
		}
	}
	return protocol.QuorumEnds(lefts, l.need), count
}
