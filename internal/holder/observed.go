package holder

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Holding is who holds a lock, as a quorum of the nodes showed it.
type Holding struct {
	Owner  string // "": nobody, or readers
	Token  int64  // 0: not known
	Shared bool   // readers hold the lock

	// Reasons are why nodes said nothing, by index, where the others do not decide who holds the lock: then the rest is what most of
	// these said. Else it is nil.
	Reasons []error
	Took    time.Duration // the look that showed that
}

// isSame reports whether an observer learns nothing new by h after it had other.
func (h *Holding) isSame(other *Holding) bool {
	return h.Owner == other.Owner && h.Token == other.Token && h.Shared == other.Shared && (h.Reasons == nil) == (other.Reasons == nil)
}

// observed is a lock that is observed. Its Board's lock protects it.
type observed struct {
	key       string
	observers map[*Observer]struct{}
	place     int // in the Board's order

	last   Holding       // what observers get
	known  bool          // a look has shown it
	sure   Holding       // the last one that a quorum showed
	began  time.Duration // when the last look at it began
	term   int64         // the greatest token that observers got
	leader string        // whose it is

	said      []protocol.Announcement // the latest
	candidate string                  // an owner that a quorum has and nobody announced; "": none
	since     time.Duration           // when a look found it first

	asked string        // an owner whose token is not known; "": none
	asks  int           // how often it was asked
	askAt time.Duration // when it is asked again, by the next look

	early bool          // it was looked at when the keys of the present owner were to end
	due   time.Duration // when it must be looked at out of turn; system.Forever: it need not
}

const (
	// mostSaid is how many announcements are kept: messages of several nodes come in any order, and before the look.
	mostSaid = 4

	// mostAsks is how often a holder is asked for its token, each time after twice as long: most of those that do not answer announce
	// nothing.
	mostAsks = 12
)

// hear notes what a message says of a lock: that leads to a look, unless it is known. Called under b.mu.
func (b *Board) hear(o *observed, a protocol.Announcement) {
	if o == nil || a.Owner != "" && o.known && o.last.Owner == a.Owner && o.last.Token == a.Token {
		return
	}
	if a.Owner != "" && !slices.Contains(o.said, a) {
		o.said = append(o.said[max(0, len(o.said)+1-mostSaid):], a)
	}
	b.lookAt(o, 0)
}

// lookAt has the lock looked at, at an instant at the latest. Called under b.mu.
func (b *Board) lookAt(o *observed, at time.Duration) {
	o.due = min(o.due, at)
	select {
	case b.wake <- struct{}{}:
	default: // run has not seen the last signal yet
	}
}

// tokenOf returns the token of an owner that a quorum has, by what was said, where the counters of the look show count at most.
func (o *observed) tokenOf(owner string, count int64) (token int64, told bool) {
	if owner == o.leader {
		return o.term, true
	}
	for _, a := range o.said {
		if a.Owner == owner && a.Token <= count && (a.Token == 0 || a.Token > o.term) {
			token, told = max(token, a.Token), true
		}
	}
	return token, told
}

// finds notes what a look has found: the owner that a quorum has, whose keys last for left; "" if nobody does. Called under b.mu.
func (b *Board) finds(o *observed, owner string, left time.Duration, count int64, now time.Duration) {
	token, told := o.tokenOf(owner, count)
	if owner != o.sure.Owner {
		o.early = false
	}
	switch {
	case owner == "":
		b.shows(o, Holding{})
	case told:
		b.shows(o, Holding{Owner: owner, Token: token})
	case owner == o.sure.Owner:
		b.ask(o, owner, now)
		b.shows(o, Holding{Owner: owner})
	case owner != o.candidate:
		b.ask(o, owner, now)
		o.candidate, o.since = owner, now
		b.lookAt(o, now+b.cfg.NodeTimeout)
		return
	case now < o.since+2*b.cfg.NodeTimeout:
		b.ask(o, owner, now)
		b.lookAt(o, now+b.cfg.NodeTimeout)
		return
	default:
		b.shows(o, Holding{Owner: owner})
	}
	switch {
	case left >= interval || left <= 0:
		o.early = false
	case !o.early:
		o.early = true
		b.lookAt(o, now+left+time.Millisecond)
	}
}

// shows gives observers what a look has shown. Called under b.mu.
func (b *Board) shows(o *observed, h Holding) {
	if h.Reasons == nil {
		o.candidate, o.sure = "", h
		if h.Token > 0 {
			o.term, o.leader = h.Token, h.Owner
		}
		if h.Token > 0 || h.Owner != o.asked {
			b.forget(o)
		}
	}
	if o.known && h.isSame(&o.last) {
		return
	}
	o.last, o.known = h, true
	o.signal()
}

// signal has the observers look at what there is.
func (o *observed) signal() {
	for observer := range o.observers {
		select {
		case observer.changed <- struct{}{}:
		default: // it has not taken the last one yet, and gets this one instead
		}
	}
}

// signalNew signals those observers that have waited for a look that began as late as this one.
func (o *observed) signalNew(began time.Duration) {
	for observer := range o.observers {
		if !observer.served && observer.began <= began {
			observer.served = true
			o.signal()
		}
	}
}

// ask asks an owner that a quorum has for its token, if that is due. Called under b.mu.
func (b *Board) ask(o *observed, owner string, now time.Duration) {
	if o.asked != owner {
		b.forget(o)
		o.asked, o.asks, o.askAt = owner, 0, now
		b.asked[owner] = append(b.asked[owner], o)
	}
	if now < o.askAt || o.asks == mostAsks {
		return
	}
	o.asks++
	o.askAt = now + b.cfg.NodeTimeout<<o.asks/2
	b.publish(protocol.QuestionChannel(o.key), b.cfg.ID)
}

// forget ends what ask began. Called under b.mu.
func (b *Board) forget(o *observed) {
	if o.asked == "" {
		return
	}
	left := slices.DeleteFunc(b.asked[o.asked], func(other *observed) bool { return other == o })
	if b.asked[o.asked] = left; len(left) == 0 {
		delete(b.asked, o.asked)
	}
	o.asked = ""
}
