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
	set := []any{x.keyArg, a.Owner, "PX", x.terms.ttlArg, "NX"}
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
		p.counting = [3]any{v.Right.Record, x.stripe, "1"}
		begin("ZCARD", x.queueArgs[:], (*queueReply)(p))
		then("SET", set, (*setReply)(p))
		then("HINCRBY", p.counting[:], (*countReply)(p))
		then("GET", x.keyArgs[:], (*holderReply)(p))
	default:
		begin("SET", set, (*setReply)(p))
		then("GET", x.keyArgs[:], (*holderReply)(p))
	}
	if remaining {
		then("PTTL", x.keyArgs[:], (*leftReply)(p))
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

func (r *countReply) Receive(reply any, err error) {
	count, misread := redis.Int64(reply, nil)
	r.count = count
	(*plainVote)(r).receive(countPart, err, node.Misread(misread))
}

func (r *queueReply) Receive(reply any, err error) {
	queue, misread := redis.Bool(reply, nil)
	r.queue = queue
	(*plainVote)(r).receive(queuePart, err, node.Misread(misread))
}

func (r *holderReply) Receive(reply any, err error) {
	owner := r.vote.Ballot().Owner
	var misread error
	switch value, is := reply.([]byte); {
	case is && string(value) == owner:
		r.holder = owner // no copy
	case is:
		r.holder, r.resting = protocol.HolderOf(value)
	case reply != nil:
		misread = fmt.Errorf("%T", reply)
	case r.merged:
		r.holder = owner // there was none before
	}
	(*plainVote)(r).receive(holderPart, err, misread)
}

func (r *leftReply) Receive(reply any, err error) {
	ms, misread := redis.Int64(reply, nil)
	r.left = protocol.Remaining(ms)
	(*plainVote)(r).receive(leftPart, err, node.Misread(misread))
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
