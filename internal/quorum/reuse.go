package quorum

import "sync/atomic"

// Spare is what a ballot is a part of, and can be used again.
type Spare interface {
	// GiveBack is called once, when nobody can reach the ballot any more. It must not block: the maker calls it, or the
	// reader of a connection.
	GiveBack()
}

// users is who may still reach a ballot: its maker, and each node that has not left. It is a set of bits, theMaker's and those
// of the nodes' indexes. Each user leaves at most once, after its last access, and who leaves last gives the ballot back.
//
// A node leaves when all its answers are in, none is an error, and no goroutine of the pipe reads the call any more
// (pipe.Call.IsDone). The maker leaves where it calls Leave, and no Watcher or Recorder was set. In all other cases the user
// stays in the set for ever, and the garbage collector takes the ballot: whoever forgets to leave costs memory alone.
// docs/safety.md (Memory that is used again) has the argument.
type users struct{ set atomic.Uint32 }

// theMaker is the index of the maker's bit; the nodes' are below it. A ballot of more nodes has no users, and is not used again.
const theMaker = len(Ballot{}.inline)

// begin makes the set of the maker and so many nodes.
func (u *users) begin(nodes int) { u.set.Store(1<<theMaker | (1<<nodes - 1)) }

// leave takes a user out, and reports whether it was the last.
func (u *users) leave(who int) (last bool) {
	bit := uint32(1) << who
	return u.set.And(^bit) == bit
}

// Leave ends the maker's use of a ballot. The maker must not touch it afterwards.
func (b *Ballot) Leave() { b.leave(theMaker) }

// leave ends a user's use of the ballot.
func (b *Ballot) leave(who int) {
	spare := b.Spare
	if spare == nil || len(b.Votes) > theMaker {
		return
	}
	if again, is := spare.(spoiled); is {
		again()
		return
	}
	if who == theMaker && (b.Watcher != nil || b.Recorder != nil) {
		return // they may keep it
	}
	if b.users.leave(who) {
		spare.GiveBack()
	}
}

// leaveUnasked ends a node's use of a ballot that it does not get. The maker is still there, so this node is not the last.
func (b *Ballot) leaveUnasked(node int) { b.users.leave(node) }

// Leave ends a node's use of the ballot, after its last answer. The receiver must not touch the vote afterwards.
func (v *Vote) Leave() {
	if v.Call.IsDone() {
		v.ballot.leave(v.Node.Index)
	}
}

// Spoil is for tests, in place of using the memory of a ballot again that was given back. From now on each answer to the ballot,
// and each user that leaves it once more, calls reached. Its maker's Await, HasQuorum and FailureOf panic.
func (b *Ballot) Spoil(reached func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	trap := spoiled(reached)
	b.Reader, b.Watcher, b.Spare, b.cluster = trap, trap, trap, nil
	b.verdict, b.Timed, b.LateUntil = Open, false, 0
	for i := range b.Votes {
		b.Votes[i].answer, b.Votes[i].must = Answer{}, false
	}
}

// spoiled is the Reader, the Watcher and the Spare of a spoiled ballot.
type spoiled func()

// Read implements Reader.
func (reached spoiled) Read(*Vote, any, error) Answer {
	reached()
	return Answer{Count: NoAnswer, Outcome: Refused}
}

// Answered implements Watcher.
func (reached spoiled) Answered(_ *Vote, a Answer) Answer {
	reached()
	return a
}

// Decided implements Watcher.
func (reached spoiled) Decided(Verdict, bool) { reached() }

// GiveBack implements Spare.
func (reached spoiled) GiveBack() { reached() }
