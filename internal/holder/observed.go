package holder

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Holding is who holds a lock, as a quorum of the nodes showed it.
type Holding struct {
	Owner string // protocol.Shared where readers hold the lock; "": nobody
	Token int64  // 0: not known

	// Reasons are why nodes said nothing, by index, if the other nodes do not decide who holds the lock: then Owner
	// is what most of these said. Else it is nil.
	Reasons []error
	Took    time.Duration // the look that showed that
}

// isSame reports whether an observer learns nothing new by h after it had other.
func (h *Holding) isSame(other *Holding) bool {
	return h.Owner == other.Owner && h.Token == other.Token && (h.Reasons == nil) == (other.Reasons == nil)
}

// observed is a lock that is observed. Its Board's lock protects it.
type observed struct {
	key       string
	observers map[*Observer]struct{}
	place     int // in the Board's order

	last  Holding       // what observers get
	known bool          // a look has shown it
	sure  string        // the last owner that a quorum showed
	began time.Duration // when the last look at it began

	term          int64                   // the greatest token that observers got
	leader        string                  // the owner with that token
	announcements []protocol.Announcement // the latest

	asked string        // an owner that a quorum has, and whose token is not known; "": none
	since time.Duration // when a look found it first
	asks  int           // how often it was asked
	askAt time.Duration // from then on the next look asks it again

	early bool          // it was looked at when the keys of the present owner were about to end
	due   time.Duration // when it must be looked at out of turn; system.Forever: it need not
}

const (
	// mostAnnouncements is how many are kept: messages of several nodes come in any order, and before the look.
	mostAnnouncements = 4

	// mostAsks is how often a holder is asked for its token, each time after twice as long: most holders that do not
	// answer do not announce themselves.
	mostAsks = 12
)

// receive records an announcement. It leads to a look, unless observers have that holder already. Called under b.mu.
func (b *Board) receive(o *observed, a protocol.Announcement) {
	if o == nil || a.Owner != "" && o.known && o.last.Owner == a.Owner && o.last.Token == a.Token {
		return
	}
	if all := o.announcements; a.Owner != "" && !slices.Contains(all, a) {
		o.announcements = append(all[max(0, len(all)+1-mostAnnouncements):], a)
	}
	b.lookAt(o, 0)
}

// lookAt has the lock looked at, no later than at an instant. Called under b.mu.
func (b *Board) lookAt(o *observed, at time.Duration) {
	o.due = min(o.due, at)
	select {
	case b.wake <- struct{}{}:
	default: // run has not seen the last signal yet
	}
}

// tokenOf returns the token that an owner announced, and whether it did. A token above count, the greatest count of the
// look, is forged.
func (o *observed) tokenOf(owner string, count int64) (token int64, announced bool) {
	if owner == o.leader {
		return o.term, true
	}
	for _, a := range o.announcements {
		if a.Owner == owner && a.Token <= count && (a.Token == 0 || a.Token > o.term) {
			token, announced = max(token, a.Token), true
		}
	}
	return token, announced
}

// record records the owner that a look has found at a quorum, and for how long its keys last; "" if the lock is free.
// The Board asks an owner that announced nothing, and shows it after looks over two node timeouts. Called under b.mu.
func (b *Board) record(o *observed, owner string, left time.Duration, count int64, now time.Duration) {
	token, announced := o.tokenOf(owner, count)
	if owner != o.sure {
		o.early = false
	}
	if owner != "" && owner != protocol.Shared && !announced {
		b.ask(o, owner, now)
		if owner != o.sure && now < o.since+2*b.cfg.NodeTimeout {
			b.lookAt(o, now+b.cfg.NodeTimeout)
			return
		}
	}
	b.show(o, Holding{Owner: owner, Token: token})
	switch {
	case left >= interval || left <= 0:
		o.early = false
	case !o.early:
		o.early = true
		b.lookAt(o, now+left+time.Millisecond)
	}
}

// show gives observers what a look has shown. Called under b.mu.
func (b *Board) show(o *observed, h Holding) {
	if h.Reasons == nil {
		o.sure = h.Owner
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
	for observer := range o.observers {
		observer.signal()
	}
}

// ask asks an owner that a quorum has for its token, if that is due. Called under b.mu.
func (b *Board) ask(o *observed, owner string, now time.Duration) {
	if o.asked != owner {
		b.forget(o)
		o.asked, o.since, o.asks, o.askAt = owner, now, 0, now
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
