package redlock

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
)

// Fencing tokens: for one lock name, every lease has a greater token than every
// lease before it, without a consensus store. Each admitted node counts its
// grants. The greatest count T of a quorum becomes the token once a quorum is
// known to stand at T or above: any later lease is granted by one of those
// nodes, which counts on from there. docs/safety.md has the proof.

// stripeOf names the counter of a lock's key, as the scripts take it.
func stripeOf(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	return strconv.Itoa(int(h.Sum32() % stripes))
}

// firstCount is the least that the counters of a record begin with: the clock of 1987,
// in microseconds. What counts below it has begun at 0, in no record.
const firstCount = 1 << 49

// leastCount is the least count by which a node shows that its record is whole.
func (o *options) leastCount() int64 {
	if o.noGuard {
		return 1
	}
	return firstCount
}

// leastArg is the same as the scripts take it.
func (o *options) leastArg() any {
	if o.noGuard {
		return "1"
	}
	return firstCountArg
}

var firstCountArg any = strconv.FormatInt(firstCount, 10)

var errNotAsked = errors.New("it had no part in the grant")

// tokenOf settles the token of a ballot that was granted. Where the quorum
// agrees, which is nearly always, that takes no further round trip; else the
// nodes are lifted to the greatest count, as long as the lease stands there. The
// ballot that did not reach a quorum is returned as the failure.
func (m *Mutex) tokenOf(ctx context.Context, b *ballot) (token int64, failure *ballot, err error) {
	if !m.opts.fencing {
		return 0, nil, nil
	}
	token, agreed := b.greatest()
	if agreed >= b.quorum {
		return token, nil, nil
	}
	lift := m.newBallot(raising, b.owner, nil, m.opts.clock())
	lifted := strconv.FormatInt(token, 10)
	for i := range lift.votes {
		v, grant := &lift.votes[i], &b.votes[i]
		v.barred = errNotAsked
		if st := grant.standing; st != nil {
			v.barred, v.standing = nil, st
			v.call.Args = []any{raiseScript.sha, "2", m.keyArg, st.record, b.owner, m.stripe, lifted, m.least}
		}
	}
	lift.within(ctx)
	lift.send(0, true)
	v, err := lift.await(ctx, m.opts.voteTimeout())
	if v != granted {
		return 0, lift, err
	}
	return token, nil, nil
}

// greatest is the greatest count that the ballot was granted with, and the
// number of nodes that are known to stand there.
func (b *ballot) greatest() (token int64, agreed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.votes {
		switch a := &b.votes[i].answer; {
		case a.voice != mine || a.token < token:
		case a.token > token:
			token, agreed = a.token, 1
		default:
			agreed++
		}
	}
	return token, agreed
}
