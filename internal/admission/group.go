package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Terms are a client's settings for admission.
type Terms struct {
	Client    string        // its name
	Guard     time.Duration // a node that lost its memory does not vote for at least this long
	Off       bool          // nodes vote even if they lost their memory
	TTL       time.Duration // of the client's leases
	ReadsOnly bool          // the client takes no locks
	MaxTTL    time.Duration // that any lease may have
	Nodes     int           // that the settings name
	Quorum    int           // of these

	// Open returns a pool of a master of the list that the settings do not name. It must not block, or call the Group.
	Open func(list []string, master string) (node.Pool, error)

	// Changed and Moved are called when the client takes another list. Changed must not block, or call the Group. joined are nodes
	// that Open was called for: each must run for its Life.
	Changed func(before, now *Roster)
	Moved   func(joined []*Member)

	Life context.Context // ends with the client
}

// Roster is the nodes of a client, by index, and how many of them are a quorum of the masters. It is never changed: another
// one takes its place.
type Roster struct {
	Nodes []*Member
	Need  int
	List  *protocol.List // of masters, by which locks are granted; nil: the client has seen no record, or admission is off

	Strangers uint64 // a bit for each node that is none of the masters, by its index
}

// IsMaster reports whether a node is one of the masters.
func (r *Roster) IsMaster(m *Member) bool {
	return m.Index < len(r.Nodes) && r.Nodes[m.Index] == m && r.Strangers>>m.Index&1 == 0
}

// For returns by what a lease that was granted under a list is renewed: the present list, if it is that one or follows it.
func (r *Roster) For(list *protocol.List) *Roster {
	if list == nil || r.List == nil || r.List.ID == list.ID || r.List.Follows(list) {
		return r
	}
	return &Roster{r.Nodes, list.Quorum(), list, r.Strangers}
}

// Group is the state that the members of one client share.
type Group struct {
	Roster atomic.Pointer[Roster] // written by Add, before the first of its nodes runs, and under standing

	terms    Terms
	cfg      *node.Config
	progress progress
	greatest atomic.Int64 // up to which count answers are believed
	longest  atomic.Int64 // the longest ttl seen on record, or used by this client; nanoseconds
	voted    atomic.Bool  // a node was seen to vote: the cluster is not new
	ballots  atomic.Int64 // the greatest number of a ballot for a list that another proposal had

	standing sync.Mutex // protects writes of Roster, and a Member's stands, stood and left
}

// NewGroup makes a group without members.
func NewGroup(terms Terms, cfg *node.Config) *Group {
	g := &Group{terms: terms, cfg: cfg}
	g.Roster.Store(&Roster{Need: terms.Quorum})
	g.updateGreatest()
	return g
}

// members returns the nodes, by index.
func (g *Group) members() []*Member { return g.Roster.Load().Nodes }

// size returns how many masters the client's list has, and a quorum of them.
func (g *Group) size() (nodes, quorum int) {
	if l := g.Roster.Load().List; l != nil {
		return l.Len(), l.Quorum()
	}
	return g.terms.Nodes, g.terms.Quorum
}

// Add makes a node of the settings a member. master names it in a new list of masters.
func (g *Group) Add(n *node.Node, master string) *Member {
	m := g.newMember(n, master)
	g.Roster.Store(&Roster{Nodes: append(g.members(), m), Need: g.terms.Quorum})
	return m
}

func (g *Group) newMember(n *node.Node, master string) *Member {
	m := &Member{Node: n, group: g, master: master, recheck: make(chan struct{}, 1)}
	m.life, m.end = context.WithCancelCause(g.terms.Life)
	if !g.terms.ReadsOnly {
		m.ttl.Store(int64(g.terms.TTL))
	}
	for _, other := range g.members() {
		raise(&m.ttl, other.ttl.Load())
	}
	n.Use(m)
	return m
}

// Life returns a context that ends when the node does.
func (m *Member) Life() context.Context { return m.life }

// bare returns how many nodes beside m had no record when they were probed last.
func (g *Group) bare(m *Member) (n int) {
	for _, other := range g.members() {
		if other != m && other.right.Load().isBare() {
			n++
		}
	}
	return n
}

// raiseLongest records a ttl that is on record at a node.
func (g *Group) raiseLongest(ttl time.Duration) { raise(&g.longest, int64(ttl)) }

// raise raises a number to another one, if that is greater.
func raise(n *atomic.Int64, to int64) {
	for {
		if old := n.Load(); to <= old || n.CompareAndSwap(old, to) {
			return
		}
	}
}

// beginning returns the count from which counters begin where no quorum remembers them, and latest is the latest of the
// servers' clocks: that, or what this client knows of later times and greater counts (docs/safety.md, A8).
func (g *Group) beginning(latest int64) int64 {
	begins, shown := latest, time.Duration(latest)*time.Microsecond
	take := func(count int64) { begins = max(begins, min(count, protocol.GreatestBeginning(shown))) }
	takeClock := func(micros int64) {
		if micros <= protocol.GreatestCount(shown) { // else it is like one server's that is far ahead of the others'
			take(micros)
		}
	}
	for _, m := range g.members() {
		take(m.counted.Load())
		if ahead, known := m.GreatestOffset(); known {
			takeClock((g.cfg.Clock() + ahead).Microseconds())
		}
	}
	if !g.voted.Load() {
		takeClock(g.cfg.Wall().UnixMicro())
	}
	return begins
}

// Settle logs the quarantines that were found so far, when the first connections are
// settled. Later ones are logged when they are found.
func (g *Group) Settle() {
	if !g.cfg.Majority.Settle() {
		g.doubtOthers(nil)
		g.recheckOthers(nil) // what waited for first looks
	}
}

// Member is a node and its right to vote.
type Member struct {
	*node.Node

	group   *Group
	master  string                    // its name in a list of masters, by this client's settings
	life    context.Context           // ends with the client, or when the server is no master any more and the settings do not name it
	end     context.CancelCauseFunc   // ends life
	left    bool                      // life has ended before the client; protected by the group's standing
	alias   atomic.Pointer[string]    // its name in the list in force, as its server has said
	stands  place                     // protected by the group's standing
	stood   protocol.List             // in which its server stands, or stood last; zero: in none. Protected as stands
	right   atomic.Pointer[VoteRight] // nil while not connected
	orphan  atomic.Pointer[any]       // the key of a missing record, where calls may have counted since; nil: none
	tooLow  atomic.Pointer[any]       // the key of the record by which a vote counted from below; nil: none
	ttl     atomic.Int64              // the longest ttl that locks of this client use, in nanoseconds; 0: it has none
	counted atomic.Int64              // the greatest count that was believed: the node's, or of a record that was read for it

	recheck   chan struct{}
	doubted   atomic.Bool // its record must be checked: it answered a count that no clock explains
	admitting atomic.Bool // its quarantine is over, and it is being admitted; written by the group's progress

	// Used by the goroutine of the node's Run alone.
	current  admission
	hasVoted bool    // it has voted over some connection: its memory is not new
	behind   string  // the list, earlier than the client's, in which its server was seen
	seen     glimpse // of its quarantine
}

// glimpse is when a client saw first that a quarantine had so much left.
type glimpse struct {
	quarantine string
	left, at   time.Duration
}

// standsStill records what a quarantine has left, and reports whether the server's clock stands
// still: after node.WaitTolerance as much is left, to the millisecond. Of a clock that was set back
// more or less would be left.
func (m *Member) standsStill(q *protocol.Barred) bool {
	now := m.group.cfg.Clock()
	if m.seen.quarantine == q.Quarantine && m.seen.left == q.Left {
		return now-m.seen.at >= node.WaitTolerance
	}
	m.seen = glimpse{q.Quarantine, q.Left, now}
	return false
}

// VoteRight is a member's right to vote over one connection, or why it has none.
type VoteRight struct {
	Votes   bool
	Record  any            // the key of the record by which it votes, boxed once
	Longest time.Duration  // the longest ttl on that record; without one, the guard of the quarantine; 0: it is not known
	List    *protocol.List // under which its votes count; nil where admission is off

	connection               // on which it holds
	bare       bool          // the node answered that it has no record
	why        error         // why it does not vote
	until      time.Duration // if it is in quarantine: its end, on the client's clock
}

// On returns the connection on which the right holds. Without a right it returns nil: a call may go over any.
func (r *VoteRight) On() *pipe.Pipe {
	if r == nil {
		return nil
	}
	return r.pipe
}

// Why returns why the node does not vote; nil if it does.
func (r *VoteRight) Why() error { return r.why }

// votes and isBare report that of a right which may be nil.
func (r *VoteRight) votes() bool  { return r != nil && r.Votes }
func (r *VoteRight) isBare() bool { return r != nil && r.bare }

// SameRecord reports whether now lets the node vote by the record of r, over the same
// connection. Both may be nil.
func (r *VoteRight) SameRecord(now *VoteRight) bool {
	return r != nil && now != nil && now.Votes && r.pipe == now.pipe && r.Record == now.Record
}

// Current returns the right that the node has now; nil if it is not connected.
func (m *Member) Current() *VoteRight { return m.right.Load() }

// Right returns the right to vote for a new lease of this ttl, or why there is none.
func (m *Member) Right(ttl time.Duration) (*VoteRight, error) {
	r := m.right.Load()
	switch {
	case r == nil:
		return nil, m.Why()
	case !r.Votes && m.admitting.Load():
		return nil, ErrAdmitting
	case r.until > 0:
		return m.quarantined(r)
	case !r.Votes:
		return nil, r.why
	case r.List != m.group.Roster.Load().List:
		return nil, ErrOtherList
	case r.Longest < ttl:
		m.useTTL(ttl)
		return nil, ErrRegistering
	}
	return r, nil
}

// RightToRenew returns the right by which the node prolongs a lease for ttl, also in quarantine, or why it is not asked. What it
// prolongs must not last for longer than the record, or the quarantine's guard, says (docs/safety.md, Clocks that are set back).
func (m *Member) RightToRenew(ttl time.Duration) (*VoteRight, error) {
	r := m.right.Load()
	switch {
	case r == nil:
		return nil, m.Why()
	case r.Longest >= ttl:
		return r, nil
	case r.Votes || r.bare:
		m.useTTL(ttl)
		return r, ErrRegistering
	}
	return r, r.why
}

// Trim returns a call that has keys end in time at the server.
func (r *VoteRight) Trim(keys []string) protocol.TrimCall {
	return protocol.TrimCall{Run: r.run, Record: r.Record, Keys: keys}
}

// quarantined is Right in quarantine. At its end the check of the admission is due.
func (m *Member) quarantined(r *VoteRight) (*VoteRight, error) {
	left := r.until - m.group.cfg.Clock()
	if left <= 0 {
		return nil, ErrAdmitting
	}
	return nil, &QuarantineError{Left: left}
}

// longestTTL returns the longest ttl that this client uses; 0 if it only reads.
func (m *Member) longestTTL() time.Duration { return time.Duration(m.ttl.Load()) }

// useTTL records that this client uses a ttl, and makes Run check the admission soon: a
// ttl that is longer than the one on record must be put there first.
func (m *Member) useTTL(ttl time.Duration) {
	raise(&m.ttl, int64(ttl))
	m.Nudge()
}

// Nudge makes Run check the admission soon.
func (m *Member) Nudge() {
	select {
	case m.recheck <- struct{}{}:
	default:
	}
}

// Recheck implements node.Admitter.
func (m *Member) Recheck() <-chan struct{} { return m.recheck }

// Disconnected implements node.Admitter.
func (m *Member) Disconnected() {
	m.right.Store(nil)
	m.standNowhere(nil)
	m.group.progress.end(m)
}

// Check implements node.Admitter.
func (m *Member) Check(ctx context.Context) time.Duration {
	m.group.updateGreatest()
	if m.group.terms.Off {
		return m.current.voteAtOnce()
	}
	next := m.current.step(ctx)
	m.group.progress.checked(m, next)
	return next
}

// Forgot withdraws the node's right to vote: a vote by this right showed that its record
// is missing, or not whole. It may even be another server, behind a proxy: the next
// handshake shows that.
func (m *Member) Forgot(by *VoteRight) {
	if by == nil || !by.Votes || m.group.terms.Off {
		return
	}
	m.orphan.Store(&by.Record)
	m.tooLow.Store(&by.Record)
	if m.right.CompareAndSwap(by, &VoteRight{connection: by.connection, Record: by.Record, why: ErrForgot}) {
		m.Reconnect(ErrForgot) // else a check has found it before
	}
}

// guard is how long the node must not vote after it lost its memory, by what this client knows: a
// quarantine that is shorter is begun anew.
func (m *Member) guard() time.Duration {
	return max(m.group.terms.Guard, m.longestTTL(), time.Duration(m.group.longest.Load()))
}

// updateGreatest computes anew up to which count answers are believed. A clock that is far
// ahead makes that less strict, and never too strict.
func (g *Group) updateGreatest() {
	var now time.Duration
	for _, m := range g.members() {
		if ahead, known := m.Offset(); known {
			now = max(now, g.cfg.Clock()+ahead)
		}
	}
	g.greatest.Store(protocol.GreatestCount(now))
}

// Believes reports whether a clock explains a count that the node answered. If not, the
// node's record is checked soon.
func (m *Member) Believes(count int64) bool {
	if count <= m.group.greatest.Load() {
		raise(&m.counted, count)
		return true
	}
	m.doubt()
	return false
}

// doubt makes Run check the node's record soon. A check that found it damaged is repeated
// after a pause.
func (m *Member) doubt() {
	if !m.doubted.Swap(true) {
		m.Nudge()
	}
}

// isUncountable reports whether err is a server's refusal to count on from what a record has.
func isUncountable(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.Contains(string(reply), "not an integer") || strings.Contains(string(reply), "would overflow"))
}

// Failed records that a vote by this right got an error in the place of an answer: the node may have counted it
// without a record, or its record cannot be counted on.
func (m *Member) Failed(by *VoteRight, err error) {
	if node.LacksCommand(err) && m.Status.Refusal() == nil {
		m.Nudge() // a look shows whether all locks need the command
	}
	if !by.votes() || m.group.terms.Off {
		return
	}
	m.orphan.Store(&by.Record)
	if isUncountable(err) {
		m.doubt()
	}
}

// verify checks the record of a node that answered a count which no clock explains. If the
// record is in order, the answer was damaged on its way. If not, and a quorum of other nodes is
// in order, the record is deleted: the node has lost its memory, and is refilled by them
// after a quarantine. ok reports whether the node votes on.
func (a *admission) verify(ctx context.Context, key string) (next time.Duration, ok bool) {
	m, g := a.member, a.member.group
	record, err := protocol.ReadMemory(a.ask("HGETALL", key))
	if err != nil {
		return a.fail(a.explain(err)), false
	}
	if record.IsExplained(g.greatest.Load()) {
		m.doubted.Store(false)
		return 0, true
	}
	c := &collected{}
	c.addOthers(ctx, a, a.inquire(), "")
	if c.admitted < c.quorum {
		return a.fail(m.Status.Unfit("its record is damaged: it has a count that no clock explains, and no quorum of other nodes " +
			"can replace it; delete its key redlock::record:* when the others vote, or at all nodes that say this")), false
	}
	a.fail(node.ErrDamaged)
	if _, err := a.ask("DEL", key); err != nil {
		return a.fail(fmt.Errorf("admission: %w", err)), false
	}
	m.doubted.Store(false)
	return time.Millisecond, false
}
