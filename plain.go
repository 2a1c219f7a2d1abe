package redlock

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/quorum"
)

// An attempt of who does not queue needs no script, which costs a server more than
// all that it calls. Its commands are sent in one go: EXISTS tells whether somebody is
// in line (first, since whoever joins it behind SET does so because of that), SET
// grants, HINCRBY counts, GET tells whose the lock is, and PTTL for how long.
//
// They are as good as one. GET finds this attempt's owner only if the key was its own
// from SET to GET, and so when it was counted: nobody else writes that value, and a
// renewal of the lease would be behind GET on the same connection. A node that has
// lost its record counts from 0, and shows that by a count below the least.
//
// Who is refused is counted too: that leaves gaps between tokens, and does no harm. Who
// is granted a lock for which others wait gives it back, and so to the first of them.

// plainVote is one node's part in an attempt without a script.
type plainVote struct {
	vote     *quorum.Vote
	mutex    *Mutex
	merged   bool         // SET tells the holder, and there is no GET
	more     [4]pipe.Call // behind vote.call
	counting [3]any       // room for arguments

	// The answers. Each field is written by the receiver of one of them, before it
	// counts down, and read by whoever counts to 0.
	out    atomic.Int32 // answers that are not in yet
	errs   [parts]error // in the order of the commands
	count  int64
	queue  bool   // somebody is in line
	holder string // the lock's holder; "" if there is none, emptyHolder for an empty value
	left   time.Duration
}

// The commands, in their order.
const (
	linePart = iota
	setPart
	countPart
	holderPart
	leftPart
	parts
)

// askPlainly makes the commands for a node; set are SET's arguments. Only who does not wait is told how long
// the holder has left. Without tokens, servers since 7.0 tell the holder by SET.
func (m *Mutex) askPlainly(v *quorum.Vote, p *plainVote, set []any, waits bool) {
	p.vote, p.mutex = v, m
	end, more := &v.Call, p.more[:]
	then := func(command string, args []any, to pipe.Receiver) {
		end.Then = &more[0]
		end, more = end.Then, more[1:]
		end.Command, end.Args, end.To = command, args, to
	}
	begin := func(command string, args []any, to pipe.Receiver) { end.Command, end.Args, end.To = command, args, to }
	switch p.merged = !m.opts.fencing && v.Node.UnderstandsSetGet(); {
	case p.merged:
		begin("SET", append(set[:len(set):len(set)], "GET"), (*holderReply)(p)) // others may share set
	case m.opts.fencing:
		p.counting = [3]any{v.Right.Record, m.stripe, "1"}
		begin("EXISTS", m.lineArgs, (*lineReply)(p))
		then("SET", set, (*setReply)(p))
		then("HINCRBY", p.counting[:], (*countReply)(p))
		then("GET", m.keyArgs, (*holderReply)(p))
	default:
		begin("SET", set, (*setReply)(p))
		then("GET", m.keyArgs, (*holderReply)(p))
	}
	if !waits {
		then("PTTL", m.keyArgs, (*leftReply)(p))
	}
	p.out.Store(int32(1 + len(p.more) - len(more)))
}

// The receivers of the answers.
type (
	setReply    plainVote
	countReply  plainVote
	lineReply   plainVote
	holderReply plainVote
	leftReply   plainVote
)

func (r *setReply) Receive(_ any, err error) {
	(*plainVote)(r).heard(setPart, err, nil)
}

func (r *countReply) Receive(reply any, err error) {
	count, misread := redis.Int64(reply, nil)
	r.count = count
	(*plainVote)(r).heard(countPart, err, misread)
}

func (r *lineReply) Receive(reply any, err error) {
	queue, misread := redis.Bool(reply, nil)
	r.queue = queue
	(*plainVote)(r).heard(linePart, err, misread)
}

func (r *holderReply) Receive(reply any, err error) {
	owner := r.vote.Ballot().Owner
	var misread error
	switch value, is := reply.([]byte); {
	case is && string(value) == owner:
		r.holder = owner // no copy
	case is:
		r.holder = holderOf(value)
	case reply != nil:
		misread = fmt.Errorf("%T", reply)
	case r.merged:
		r.holder = owner // there was none before
	}
	(*plainVote)(r).heard(holderPart, err, misread)
}

func (r *leftReply) Receive(reply any, err error) {
	ms, misread := redis.Int64(reply, nil)
	r.left = remaining(ms)
	(*plainVote)(r).heard(leftPart, err, misread)
}

// heard takes note of one answer: err is what came in its place, else misread is why
// it could not be read. With the last answer the node has voted.
func (p *plainVote) heard(part int, err, misread error) {
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
	v.Take(p.answer())
}

// answer is what the commands' answers say together.
func (p *plainVote) answer() quorum.Answer {
	owner := p.vote.Ballot().Owner
	switch m := p.mutex; {
	case m.opts.fencing && p.count < m.opts.leastCount():
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}
	case p.holder == owner && p.queue:
		return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: reservation} // as it will be
	case p.holder == owner:
		return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: p.count}
	}
	return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: p.holder, Remaining: p.left}
}
