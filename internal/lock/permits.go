package lock

import (
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// MaxPermits is how many permits a semaphore has at most.
const MaxPermits = protocol.MaxPermits

// orders is how many orders of slots attempts draw from: slots.lua computes exactly with seeds below it.
const orders = 1 << 32

// Permits is some of the permits of a semaphore, as one caller asks for them: the Primitive of
// Client.Semaphore. A semaphore of K permits is K slots. Each slot is an Exclusive lock, whose key
// is the semaphore's with # and the slot's number. A node that grants an attempt chooses free slots
// for it; a lease is granted when a quorum has chosen the same. From then on it is like a lease of
// Several locks, whose keys are those slots'.
type Permits struct {
	Lock
	size, n int       // slots of the semaphore; those that are asked for
	terms   Terms     // as given, but that refused attempts are not parked
	queue   [1]string // the key of the wait queue
	turn    string    // the key that says whose turn it is
	base    string    // the key of a slot, but for its number
	first   int       // the stripe of slot 0

	// Of the last attempt that was granted, which became the lease or was rolled back.
	slots   []int
	list    string // the slots, with commas between
	held    []any  // their keys
	stripes any    // their counters, with commas between
}

// Init makes a request for n of the size permits of a semaphore. A copy of p goes on using p.
func (p *Permits) Init(e *Engine, t *Terms, prefix, name string, size, n int) {
	e.need(protocol.ForPermits|protocol.ForSeveral, t)
	p.terms = *t
	p.terms.Wait.Parking = false // releases that cross would execute the attempt at different slots
	p.queue[0], p.turn, p.base = protocol.SlotKeys(prefix, name)
	p.Lock = Lock{Name: name, keys: p.queue[:], engine: e, terms: &p.terms, primitive: p, script: protocol.GiveBack,
		suffix: protocol.PermitsSuffix(size, n)}
	p.size, p.n = size, n
	p.first, _ = strconv.Atoi(protocol.StripeOf(p.base + "0"))
}

// Asked returns how many permits are asked for, and how many the semaphore has.
func (p *Permits) Asked() (n, all int) { return p.n, p.size }

// Slots returns the slots that the lease has.
func (p *Permits) Slots() []int { return p.slots }

// PrepareAttempt implements Primitive.
func (p *Permits) PrepareAttempt(a *Attempt) {
	// All nodes try the slots in one order, so that they choose the same. It is new for each attempt:
	// nodes that chose differently may choose the same next time.
	seed := int64(p.terms.Random.Below(orders, "order of slots"))
	var ticket string
	if a.Waiter != nil {
		ticket = a.Waiter.Ticket()
	}
	p.list = ""             // of an attempt before, which was rolled back
	a.Permits = uint16(p.n) //nolint:gosec // at most MaxPermits
	a.Watcher = &choice{permits: p, owner: a.Owner, ticket: ticket, next: a.Watcher}
	keys, stripe := "2", ""
	if p.terms.Fencing {
		keys, stripe = "3", strconv.Itoa(p.first)
	}
	// The arguments before and behind the record are those of all nodes, and boxed once.
	before := []any{protocol.Permit.SHA, keys, p.queue[0], p.turn}
	behind := []any{a.Owner, p.terms.ttlArg, stripe, p.terms.leastArg, ticket, p.terms.labelArg, p.base, p.size, p.n, seed}
	if a.Waits && a.Waiter == nil {
		behind = append(behind, "1")
	}
	for i := range a.Votes {
		v := &a.Votes[i]
		if v.Skip != nil {
			continue
		}
		args := append(make([]any, 0, len(before)+1+len(behind)), before...)
		if p.terms.Fencing {
			args = append(args, v.Right.Record)
		}
		v.Call.Args = append(args, behind...)
	}
}

// granted implements Primitive. The lease has the slots that a quorum chose.
func (p *Permits) granted(a *Attempt) {
	p.list, p.slots, p.held = a.Watcher.(*choice).settle(), nil, nil
	var stripes []string
	for slot := range strings.SplitSeq(p.list, ",") {
		n, _ := strconv.Atoi(slot) // the reader has seen to it
		p.slots = append(p.slots, n)
		p.held = append(p.held, p.base+slot)
		stripes = append(stripes, strconv.Itoa((p.first+n)%protocol.Stripes))
	}
	p.stripes = strings.Join(stripes, ",")
	if a.Waiter == nil {
		return
	}
	for _, n := range p.engine.Cluster.Nodes { // that were not asked this time, and may have the ticket in their queues
		if a.Waiter.Nodes().Has(n.Index) && !a.Sent().Has(n.Index) {
			n.Undo(p.NewUndo(a.Owner, a.Waiter.Ticket()))
		}
	}
}

// PrepareRaise implements Primitive.
func (p *Permits) PrepareRaise(v *quorum.Vote, owner string, token int64) {
	v.Call.Args = withRecord(p.held, v, protocol.RaiseAll, owner, p.stripes, strconv.FormatInt(token, 10), p.terms.leastArg)
}

// PrepareRenewal implements Primitive.
func (p *Permits) PrepareRenewal(v *quorum.Vote, owner, _, ttl any) {
	v.Call.Args = withRecord(p.held, v, protocol.RenewAll, owner, ttl, p.terms.leastArg)
}

// ReleaseArgs implements Primitive.
func (p *Permits) ReleaseArgs(r Release) []any {
	args := append(make([]any, 0, 10), protocol.GiveBack.SHA, "2", p.queue[0], p.turn, r.Owner, p.base, p.size, p.list)
	return r.addTicket(args, p.terms.labelArg)
}

// UndoArgs implements Primitive. An undo looks at all slots, as the node may have chosen any.
func (p *Permits) UndoArgs(owner, ticket string) []any {
	args := []any{"2", p.queue[0], p.turn, owner, p.base, p.size, ""}
	if ticket != "" {
		args = append(args, ticket)
	}
	return args
}

// Readers implements Primitive.
func (p *Permits) Readers() *Readers { return choosing }
