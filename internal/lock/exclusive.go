package lock

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Exclusive is a lock that one owner holds at a time: the Primitive of a mutex, and of the
// writers of a read-write lock.
type Exclusive struct {
	keyed
	wire  protocol.Keys
	plain plainArgs
}

// Init makes the lock of a name. A copy of x goes on using x.
func (x *Exclusive) Init(e *Engine, t *Terms, prefix, name string) {
	var key string
	x.wire, key = protocol.NewKeys(prefix, name, t.Wanted)
	x.plain = plainArgs{key: [1]any{x.wire.Key}, queue: [1]any{x.wire.Queue}}
	x.init(e, t, name, key, x, 0)
}

// PrepareAttempt implements Primitive. A waiter's attempt is a script, which puts the waiter into
// the node's queue if it refuses it. A caller that is not queued needs no script: entering Lua
// costs the server more than the plain commands do.
func (x *Exclusive) PrepareAttempt(a *Attempt) {
	if a.Waiter == nil {
		x.preparePlainly(a)
		return
	}
	call := a.call()
	for i := range a.Votes {
		if v := &a.Votes[i]; v.Skip == nil {
			v.Call.Args = x.wire.Acquire(&x.terms.settings, &call, v.Right.Record, a.Parked.ParkFor(i))
		}
	}
}

// RaiseArgs implements Primitive.
func (x *Exclusive) RaiseArgs(c protocol.RaiseCall, record any) []any {
	return x.wire.Raise(&x.terms.settings, c, record)
}

// RenewalArgs implements Primitive.
func (x *Exclusive) RenewalArgs(c protocol.RenewalCall, record any) []any {
	return x.wire.Renew(&x.terms.settings, c, record)
}

// ReleaseArgs implements Primitive.
func (x *Exclusive) ReleaseArgs(c protocol.ReleaseCall, _ bool) []any {
	return x.wire.Release(&x.terms.settings, c)
}

// The fast path: an attempt of a caller that is not queued needs no script. Its commands are
// sent in one go: ZCARD reports whether a waiter stands in the node's queue (first, since a
// waiter that joins behind SET does so because of that), SET grants, HINCRBY counts, GET
// returns the holder, and PTTL for how long it has the key.
//
// They are as good as one command. GET finds this attempt's owner only if the key was its own
// from SET to GET, and so when it was counted: nobody else writes that value, and a renewal of
// the lease would be behind GET on the same connection. A node that has lost its record counts
// from 0, and shows that by a count below the least.
//
// A refused caller is counted too: that leaves gaps between tokens, and does no harm. A caller
// that is granted a lock for which others wait gives it back, and so to the first of them.

// plainVote is one node's part in an attempt without a script.
type plainVote struct {
	vote     *quorum.Vote
	lock     *Exclusive
	merged   bool         // SET returns the holder, and there is no GET
	more     [4]pipe.Call // behind vote.Call
	counting [3]any       // room for arguments

	// The answers. Each field is written by the receiver of one of them, before it
	// counts down, and read by the receiver that counts to 0.
	out    atomic.Int32 // answers that are not in yet
	errs   [parts]error // in the order of the commands
	count  int64
	queue  bool   // a waiter stands in the node's queue
	holder string // the lock's holder; "" if there is none, EmptyHolder for an empty value
	left   time.Duration

	resting bool // the holder's lease has ended
}

// plainArgs are the arguments of commands that take one key.
type plainArgs struct{ key, queue [1]any }

// setArgs returns the arguments of SET.
func (x *Exclusive) setArgs(owner string) [5]any {
	return [...]any{x.wire.Key, owner, "PX", x.terms.settings.TTL, "NX"}
}

// The commands, in their order.
const (
	queuePart = iota
	setPart
	countPart
	holderPart
	leftPart
	parts
)

// preparePlainly fills in the votes of an attempt of a caller that is not queued.
func (x *Exclusive) preparePlainly(a *Attempt) {
	votes := make([]plainVote, len(a.Votes))
	a.room = x.setArgs(a.Owner)
	set := a.room[:]
	for i := range a.Votes {
		if v := &a.Votes[i]; v.Skip == nil {
			votes[i].prepare(v, x, set, !a.Waits)
		}
	}
}

// prepare makes the commands for a node; set are SET's arguments. Only a caller that does not
// wait learns how long the holder has left. Without tokens, servers since 7.0 return the
// holder by SET.
func (p *plainVote) prepare(v *quorum.Vote, x *Exclusive, set []any, remaining bool) {
	p.vote, p.lock = v, x
	end, more := &v.Call, p.more[:]
	then := func(command string, args []any, to pipe.Receiver) {
		end.Then = &more[0]
		end, more = end.Then, more[1:]
		end.Command, end.Args, end.To = command, args, to
	}
	begin := func(command string, args []any, to pipe.Receiver) { end.Command, end.Args, end.To = command, args, to }
	switch p.merged = !x.terms.Fencing && v.Node.UnderstandsSetGet(); {
	case p.merged:
		begin("SET", append(set[:len(set):len(set)], "GET"), (*holderReply)(p)) // others may share set
	case x.terms.Fencing:
		p.counting = [3]any{v.Right.Record, x.wire.Stripe, "1"}
		begin("ZCARD", x.plain.queue[:], (*queueReply)(p))
		then("SET", set, (*setReply)(p))
		then("HINCRBY", p.counting[:], (*countReply)(p))
		then("GET", x.plain.key[:], (*holderReply)(p))
	default:
		begin("SET", set, (*setReply)(p))
		then("GET", x.plain.key[:], (*holderReply)(p))
	}
	if remaining {
		then("PTTL", x.plain.key[:], (*leftReply)(p))
	}
	p.out.Store(int32(1 + len(p.more) - len(more)))
}

// The receivers of the answers.
type (
	setReply    plainVote
	countReply  plainVote
	queueReply  plainVote
	holderReply plainVote
	leftReply   plainVote
)

func (r *setReply) Receive(_ any, err error) {
	(*plainVote)(r).receive(setPart, err, nil)
}

func (r *countReply) Receive(_ any, err error) {
	(*plainVote)(r).receive(countPart, err, nil)
}

// ReceiveQuick implements pipe.QuickReceiver.
func (r *countReply) ReceiveQuick(reply *pipe.Reply) {
	count, misread := reply.Int64()
	r.count = count
	(*plainVote)(r).receive(countPart, nil, node.Misread(misread))
}

func (r *queueReply) Receive(reply any, err error) {
	queue, misread := redis.Bool(reply, nil)
	r.queue = queue
	(*plainVote)(r).receive(queuePart, err, node.Misread(misread))
}

func (r *holderReply) Receive(_ any, err error) {
	(*plainVote)(r).receive(holderPart, err, nil)
}

// ReceiveQuick implements pipe.QuickReceiver.
func (r *holderReply) ReceiveQuick(reply *pipe.Reply) {
	owner := r.vote.Ballot().Owner
	var misread error
	switch isText := reply.Kind == pipe.Text; {
	case isText && string(reply.Text) == owner:
		r.holder = owner // no copy
	case isText:
		r.holder, r.resting = protocol.HolderOf(reply.Text)
	case reply.Value() != nil:
		misread = fmt.Errorf("%T", reply.Value())
	case r.merged:
		r.holder = owner // there was none before
	}
	(*plainVote)(r).receive(holderPart, nil, misread)
}

func (r *leftReply) Receive(_ any, err error) {
	(*plainVote)(r).receive(leftPart, err, nil)
}

// ReceiveQuick implements pipe.QuickReceiver.
func (r *leftReply) ReceiveQuick(reply *pipe.Reply) {
	ms, misread := reply.Int64()
	r.left = protocol.Remaining(ms)
	(*plainVote)(r).receive(leftPart, nil, node.Misread(misread))
}

// receive records one answer: err is what came in its place, else misread is why it could not
// be read. With the last answer the node has voted.
func (p *plainVote) receive(part int, err, misread error) {
	v := p.vote
	if err == nil && misread != nil {
		err = fmt.Errorf("unexpected reply to %s: %w", v.Ballot().Op, misread)
		v.Node.Reconnect(err) // replies may be out of step with the calls
	}
	if errors.Is(err, pipe.ErrNotSent) && part > setPart && !(p.merged && part == holderPart) {
		err = fmt.Errorf("cut off in the midst of an attempt: %v", err) // it may have been granted
	}
	p.errs[part] = err
	if p.out.Add(-1) > 0 {
		return
	}
	for _, err := range p.errs {
		if err != nil {
			v.Receive(nil, err)
			return
		}
	}
	v.Node.Answered(nil)
	v.Count(p.answer())
}

// answer returns what the commands' answers mean together.
func (p *plainVote) answer() quorum.Answer {
	owner := p.vote.Ballot().Owner
	switch x := p.lock; {
	case x.terms.Fencing && p.count < x.terms.LeastToken:
		return forgot
	case p.holder == owner && p.queue:
		return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: protocol.Reservation} // as it will be
	case p.holder == owner:
		return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: p.count}
	}
	return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: p.holder, Resting: p.resting, Remaining: p.left}
}
