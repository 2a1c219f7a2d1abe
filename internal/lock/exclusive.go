package lock

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// The fast path: an attempt of a caller that is not queued needs no script. Its commands are
// sent in one go: ZCARD reports whether a waiter stands in the node's queue, SET grants, HINCRBY counts, GET
// returns the holder, and PTTL for how long it has the key. ZCARD is ahead of SET: a waiter that joins after our
// SET was refused because of it, and must not count. Without tokens there is no ZCARD: such a caller does not see
// waiters. Its count shows only that the node has the record by which it may vote.
//
// They are as good as one command. GET finds this attempt's owner only if the key was its own
// from SET to GET, and so when it was counted: nobody else writes that value, and a renewal of
// the lease would be behind GET on the same connection. A node that has lost its record counts
// from 0, and shows that by a count below the least.
//
// A refused caller is counted too: that leaves gaps between tokens, and does no harm. A caller
// that is granted a lock for which others wait gives it back, and so to the first of them.

// plainVote is one node's part in an attempt without a script. It is a pipe.Series; the answers come in the order of
// its commands.
type plainVote struct {
	vote     *quorum.Vote
	lock     *Exclusive
	owner    string   // of the attempt
	set      *setArgs // which others share
	counting [3]any   // HINCRBY's arguments
	merged   bool     // SET returns the holder, and there is no GET
	asked    plainPart

	// The answers. A first one may come while the rest is sent.
	due     plainPart // the commands whose answers are not in yet
	err     error     // the first that came in the place of an answer, or could not be read
	count   int64
	queue   bool   // a waiter stands in the node's queue
	holder  string // the lock's holder; "" if there is none, EmptyHolder for an empty value
	resting bool   // the holder's lease has ended
	left    time.Duration
}

// plainArgs are the arguments of commands that take one key.
type plainArgs struct{ key, queue [1]any }

// setArgs are the arguments of SET. The last is for a SET that returns the holder.
type setArgs [6]any

// ownerOfSet is the owner's place among setArgs.
const ownerOfSet = 1

// setArgs returns the arguments of an owner's SET.
func (x *Exclusive) setArgs(owner string) setArgs {
	return setArgs{x.wire.Key, owner, "PX", x.terms.settings.TTL, "NX", "GET"}
}

// plainPart is a set of the commands. They are sent in the order of their bits.
type plainPart uint8

const (
	queuePart plainPart = 1 << iota
	setPart
	countPart
	holderPart
	leftPart
)

// preparePlainly fills in the votes of an attempt of a caller that is not queued.
func (x *Exclusive) preparePlainly(a *Attempt) {
	if len(a.plain) != len(a.Votes) {
		a.plain = make([]plainVote, len(a.Votes))
	}
	a.set = x.setArgs(a.Owner)
	for i := range a.Votes {
		if v := &a.Votes[i]; v.Skip == nil {
			a.plain[i].prepare(v, x, &a.set, !a.Waits)
		}
	}
}

// prepare makes the commands for a node; set are SET's arguments. Only a caller that does not
// wait learns how long the holder has left. Without tokens, servers since 7.0 return the
// holder by SET.
func (p *plainVote) prepare(v *quorum.Vote, x *Exclusive, set *setArgs, remaining bool) {
	p.vote, p.lock, p.owner, p.set = v, x, v.Ballot().Owner, set
	p.counting = [3]any{v.Right.Record, x.wire.Stripe, "1"}
	p.asked = setPart | countPart
	if x.terms.Fencing {
		p.asked |= queuePart
	}
	if p.merged = !x.terms.Fencing && v.Node.UnderstandsSetGet(); !p.merged {
		p.asked |= holderPart
	}
	if remaining {
		p.asked |= leftPart
	}
	p.due = p.asked
	v.Call.To, v.Call.Series = p, int16(bits.OnesCount8(uint8(p.asked)))
}

// Send implements pipe.Series.
func (p *plainVote) Send(to pipe.Sender) (err error) {
	send := func(part plainPart, command string, args []any) {
		if err == nil && p.asked&part != 0 {
			err = to.Send(command, args...)
		}
	}
	set := p.set[:]
	if !p.merged {
		set = slices.Clip(set[:len(set)-1])
	}
	send(queuePart, "ZCARD", p.lock.args.queue[:])
	send(setPart, "SET", set)
	send(countPart, "HINCRBY", p.counting[:])
	send(holderPart, "GET", p.lock.args.key[:])
	send(leftPart, "PTTL", p.lock.args.key[:])
	return err
}

// Size implements pipe.Series.
func (p *plainVote) Size() int {
	const (
		each  = 48  // a command with a key, but for the key; the prefix of the queue's key is in it
		other = 176 // HINCRBY, which has the record for a key, and SET's other arguments
	)
	keys := bits.OnesCount8(uint8(p.asked &^ countPart))
	return keys*(each+len(p.lock.keys[0])) + other + len(p.owner)
}

// Receive implements pipe.Receiver.
func (p *plainVote) Receive(_ any, err error) { p.answered(err) }

// ReceiveQuick implements pipe.QuickReceiver.
func (p *plainVote) ReceiveQuick(reply *pipe.Reply) {
	var misread error
	switch part := p.due & -p.due; {
	case part == queuePart:
		var waiters int64
		waiters, misread = reply.Int64()
		p.queue = waiters != 0
	case part == countPart:
		p.count, misread = reply.Int64()
	case part == holderPart || part == setPart && p.merged:
		misread = p.readHolder(reply)
	case part == leftPart:
		var ms int64
		ms, misread = reply.Int64()
		p.left = protocol.Remaining(ms)
	}
	if misread != nil {
		misread = fmt.Errorf("unexpected reply to %s: %w", p.vote.Ballot().Op, misread)
		p.vote.Node.Reconnect(misread) // replies may be out of step with the calls
	}
	p.answered(misread)
}

// readHolder reads the lock's holder.
func (p *plainVote) readHolder(reply *pipe.Reply) (misread error) {
	switch isText := reply.Kind == pipe.Text; {
	case isText && string(reply.Text) == p.owner:
		p.holder = p.owner // no copy
	case isText:
		p.holder, p.resting = protocol.HolderOf(reply.Text)
	case reply.Value() != nil:
		return fmt.Errorf("%T", reply.Value())
	case p.merged:
		p.holder = p.owner // there was none before
	}
	return nil
}

// answered records that an answer is in, or an error in its place. With the last one the node has voted.
func (p *plainVote) answered(err error) {
	p.err = cmp.Or(p.err, err)
	if p.due &= p.due - 1; p.due != 0 {
		return
	}
	if p.err != nil {
		p.vote.Receive(nil, p.err)
		return
	}
	p.vote.Node.Status.Answered(nil)
	a := quorum.Answer{Count: quorum.No, Outcome: quorum.Refused}
	switch x := p.lock; {
	case p.count < x.terms.LeastToken:
		a = forgot
	case p.holder == p.owner && p.queue: // the rollback makes the key a reservation: passedQueue
		a.Holder = protocol.Reservation
	case p.holder == p.owner:
		a = quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: p.count}
	default:
		a.Holder, a.Resting, a.Remaining = p.holder, p.resting, p.left
	}
	p.vote.Count(a)
	p.vote.Leave()
}
