package quorum

import "sync/atomic"

// Spare is what a ballot is a part of, and can be used again.
type Spare interface {
	// GiveBack is called once, when no goroutine can reach the ballot any more. The maker or a connection's reader
	// calls it. It must not block.
	GiveBack()
}

// users is the set of a ballot's users: its maker, and each node that has not left. Each user has a bit. A user leaves at
// most once, after its last access; the last user to leave gives the ballot back.
//
// A node leaves when all its answers are in, none is an error, and no goroutine of the pipe reads the call any more
// (pipe.Call.Done). The maker leaves when it calls Leave, unless a Watcher or a Recorder is set. In all other cases the
// user stays in the set for ever, and the garbage collector frees the ballot. So a forgotten Leave only wastes memory.
// docs/safety.md (Memory that is used again) has the argument.
type users struct{ atomic.Uint32 }

// theMaker is the index of the maker's bit. A node's index is that of its bit. A ballot of more nodes has no users, and is
// not used again.
const theMaker = len(Ballot{}.inline)

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
	if bit := uint32(1) << who; b.users.And(^bit) == bit { // it was the last
		spare.GiveBack()
	}
}

// leaveUnasked takes out a node that does not get the ballot. The maker has not left yet, so the node is not the last user.
func (b *Ballot) leaveUnasked(node int) { b.users.And(^(uint32(1) << node)) }

// Leave ends a node's use of the ballot, after its last answer. The receiver must not touch the vote afterwards.
func (v *Vote) Leave() {
	if v.Call.Done {
		v.ballot.leave(v.Node.Index)
	}
}

// Spoil is for tests, which spoil a ballot that was given back, and do not use it again. After it, each answer to the ballot
// and each second Leave calls reached. The maker's Await, HasQuorum and FailureOf panic.
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
