package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// The list of masters is at the masters. A vote counts under the list in which its server stands, and votes of two lists
// are never added up. docs/safety.md (Lists of masters) has the argument.

var (
	// ErrNoMaster is why a node is not asked that is none of the masters.
	ErrNoMaster = errors.New("it is no master of the list in force")

	// ErrOtherList is why a node is not asked that stands in another list than this client's locks.
	ErrOtherList = errors.New("it is a master of another list than the other nodes")

	// errSealed is why a node is not admitted now: another client, or one with another list, is about to.
	errSealed = fmt.Errorf("another client has sealed it, or another master of its list: %w", ErrAdmitting)

	// errInTurn is why a node waits for the first master without a record: with that the list begins.
	errInTurn = fmt.Errorf("it is admitted after the first of its list's masters: %w", ErrAdmitting)
)

// masters returns the masters of a new list: as this client's settings name them.
func (g *Group) masters() (all []string) {
	for _, m := range g.members()[:g.terms.Nodes] {
		all = append(all, m.master)
	}
	return all
}

// masterOf returns which of a list's masters the node is: by its address in the settings or, where others name it in
// another way, by what its server said while it had a record. It returns "" if it is none of them, as far as known.
func (m *Member) masterOf(l *protocol.List) string {
	switch {
	case l.Has(m.master):
		return m.master
	case m.group.terms.Nodes == 1 && l.Len() == 1:
		return l.Masters // there is no other one
	}
	if alias := m.alias.Load(); alias != nil && l.Has(*alias) {
		return *alias
	}
	return ""
}

// placeIn returns which of the masters of the collected list the node is, or why it is not admitted to that list.
func (a *admission) placeIn(c *collected) (self string, misfit error) {
	m, l := a.member, &c.list
	self = m.masterOf(l)
	switch {
	case l.Len() != m.group.terms.Nodes && !m.group.knows(l):
		return "", m.otherNumber(l.Len())
	case self == "":
		mine := protocol.NewList("", m.group.masters())
		return "", m.Status.Unfit(fmt.Sprintf("it is no master of the list that %s has, %s; this client has %s: give all clients "+
			"one list (docs/operations.md#replacing-a-master)", c.shownBy(a), l.Masters, mine.Masters))
	case a.self != "" && a.self != self:
		return "", m.Status.Unfit(fmt.Sprintf("it has the data of another master, %s: wipe it, or give it the old address",
			a.self))
	}
	return self, nil
}

// shownBy returns the name of a node that stands in the collected list, or stood there last.
func (c *collected) shownBy(a *admission) string {
	for _, o := range c.answers {
		if o.List.ID == c.list.ID {
			return o.member.Name
		}
	}
	return a.member.Name
}

// stand records that the node's server has a record of the list, as self. It returns the client's list, and why the node does not
// vote by it. Errors have no list, but for errBehind.
func (m *Member) stand(list protocol.List, self string) (*protocol.List, error) {
	g := m.group
	if list.ID == "" {
		return nil, m.Status.Unfit("its key redlock::members is gone: copy the fields id and masters from another master, " +
			"and set self to its own name in masters")
	}
	moved := func() {}
	defer func() { moved() }()
	g.standing.Lock()
	defer g.standing.Unlock() // before moved
	list.Arg = list.ID
	m.stands, m.stood = place{list, self}, list
	for _, other := range g.members() {
		if other != m && other.stands.list.ID == list.ID && other.stands.self == self {
			return nil, m.Status.SameServer(other.Index)
		}
	}
	now := g.Roster.Load().List
	if g.takes(&list, now) {
		moved = g.take(&list, m)
		now = &list
	}
	switch {
	case now == nil && list.Len() != g.terms.Nodes && g.cfg.Majority.HasSeenAll(&m.Status):
		return nil, m.otherNumber(list.Len())
	case now == nil:
		return nil, ErrOtherList
	case now.ID == list.ID:
		if old := m.alias.Swap(&self); old == nil || *old != self {
			g.setRoster(g.members(), now)
		}
		return now, nil
	case now.Follows(&list):
		return now, errBehind
	case g.standingIn(now.ID) >= now.Quorum():
		return nil, m.Status.Unfit(fmt.Sprintf("it is a master of another list, %s; the list in force is %s: give this pool "+
			"the address of one of its masters", list.Masters, now.Masters))
	}
	return nil, ErrOtherList
}

// nudgeOthers makes the other nodes check their admissions soon, since the client has left a list; nil: it had none, and only
// nodes that stand in one must. Called under g.standing.
func (g *Group) nudgeOthers(m *Member, before *protocol.List) {
	for _, other := range g.members() {
		if other != m && (before != nil || other.stands.list.ID != "") {
			other.Nudge()
		}
	}
}

// InForce returns the list in which a quorum of the nodes stands, and which of its masters each node is, "" for none of them.
// The list is zero if there is none.
func (g *Group) InForce() (l protocol.List, places []string) {
	g.standing.Lock()
	defer g.standing.Unlock()
	places = make([]string, len(g.members()))
	now := g.Roster.Load().List
	if now == nil || g.standingIn(now.ID) < now.Quorum() {
		return l, places
	}
	for i, m := range g.members() {
		if l := &m.stands.list; l.ID == "" || l.ID == now.ID {
			places[i] = m.masterOf(now)
		}
	}
	return *now, places
}

// standingIn returns how many nodes stand in a list. Called under g.standing.
func (g *Group) standingIn(list string) (n int) {
	for _, m := range g.members() {
		if m.stands.list.ID == list {
			n++
		}
	}
	return n
}

// standNowhere records that the node's server stands in no list, and in which it stood last; nil: as far as it was known.
func (m *Member) standNowhere(last *protocol.List) {
	m.group.standing.Lock()
	defer m.group.standing.Unlock()
	if m.stands = (place{}); last != nil {
		m.stood = *last
	}
}

// place is in which list a server stands, and as which of its masters; zero: in none.
type place struct {
	list protocol.List
	self string
}

// blank is a server that remembers no list.
type blank struct {
	inquiry
	master, quarantine string
}

// begin has a list begin, or begin again, with this node. All of its masters must have answered, and the quarantines of
// those without a record must be over. Where a quorum remembers the list, this is asked of that quorum alone. The client
// then seals the servers that remember no list, in the order of the list. ok reports whether the node can be admitted; else
// next is after what time to try again.
func (a *admission) begin(ctx context.Context, q *protocol.Barred, c *collected, self, seal string) (
	next time.Duration, ok bool) {
	fail := func(why error) (time.Duration, bool) { return a.failAs(VoteRight{bare: true, why: why}), false }
	blanks, ready, ahead := c.blanks(a, q, self)
	switch answered := 1 + len(c.answers); {
	case c.foreign > 0:
		return fail(ErrOtherList)
	case ready >= c.quorum:
	case answered < c.nodes:
		return fail(fmt.Errorf("it is new, or lost its memory with others, and votes again when all nodes answer (%d of %d did)",
			answered, c.nodes))
	case c.left > 0:
		return a.wait(c.left, ""), false
	case c.unseen:
		return a.putOff(errInTurn), false
	}
	if ahead {
		return a.putOff(errInTurn), false
	}
	for i, b := range blanks {
		err := a.reserve(ctx, b, seal)
		if err == nil || ready >= c.quorum && b.member != a.member {
			continue // the quorum that remembers the list keeps other lists from beginning
		}
		for _, b := range blanks[:i] { // another client may have the rest
			b.member.Ask(b.pipe, "EVAL", a.sealCall(b, seal, true).Eval()...)
		}
		if err == errSealed {
			return a.putOff(err), false
		}
		return fail(fmt.Errorf("it is new, or lost its memory with others; %s cannot be sealed: %w",
			b.member.Name, err))
	}
	return 0, true
}

// blanks returns the servers that remember no list, in the order of the list's masters. ready is how many remember the
// list, and are admitted or can be. ahead reports whether a master that can be admitted comes before this one.
func (c *collected) blanks(a *admission, q *protocol.Barred, self string) (all []blank, ready int, ahead bool) {
	if a.list.ID == "" {
		all = append(all, a.blank(q, self))
	} else {
		ready++
	}
	for _, o := range c.answers {
		master := c.placeOf(&o)
		able := o.Looked && o.Left <= 0 && o.member.Status.Refusal() == nil
		switch {
		case o.Nodes != "":
			ready++
			continue
		case able && o.List.ID != "":
			ready++
		case o.List.ID == "" && o.Looked && o.Left <= 0:
			all = append(all, blank{o.inquiry, master, o.Quarantine})
		}
		ahead = ahead || able && master != "" && master < self
	}
	slices.SortFunc(all, func(x, y blank) int { return strings.Compare(x.master, y.master) })
	return all, ready, ahead
}

// putOff keeps a node from voting that is about to be admitted, and returns after what time to try again. A node whose
// quarantine this client knew keeps that as its reason.
func (a *admission) putOff(why error) time.Duration {
	if r := a.member.right.Load(); r.isBare() && r.until > 0 {
		return system.Jitter(a.member.group.cfg.Random, retryInterval, a.member.Name)
	}
	return a.failAs(VoteRight{bare: true, why: why})
}

// reserveOwn seals the node, which joins a list in force. Records of the others count only if they are read after that.
func (a *admission) reserveOwn(ctx context.Context, q *protocol.Barred, seal string, began time.Duration) time.Duration {
	switch err := a.reserve(ctx, a.blank(q, ""), seal); {
	case err == errSealed:
		return a.putOff(err)
	case err != nil:
		return a.fail(a.explain(err))
	}
	a.seal, a.sealed = a.member.group.terms.Client+seal, began
	return time.Millisecond
}

// blank returns this node as a server that remembers no list.
func (a *admission) blank(q *protocol.Barred, self string) blank {
	return blank{inquiry{member: a.member, pipe: a.pipe, run: a.run}, self, q.Quarantine}
}

// reserve seals a server. Errors: errSealed, or why the server did not answer.
func (a *admission) reserve(ctx context.Context, b blank, seal string) error {
	ctx, stop := context.WithTimeout(ctx, a.member.group.cfg.DeadAfter)
	defer stop()
	call := a.sealCall(b, seal, false)
	sealed, err := protocol.ReadAdmit(b.member.Await(ctx, b.member.Ask(b.pipe, "EVAL", call.Eval()...)))
	if err == nil && !sealed {
		err = errSealed
	}
	return err
}

func (a *admission) sealCall(b blank, seal string, undo bool) protocol.SealCall {
	client := a.member.group.terms.Client
	return protocol.SealCall{Run: b.run, Client: client, Seal: seal, Quarantine: b.quarantine, Undo: undo}
}
