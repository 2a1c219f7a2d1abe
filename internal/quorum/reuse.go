package quorum

import "sync/atomic"

// Spare is what a ballot is a part of, and can be used again.
type Spare interface {
	// GiveBack is called once nobody can reach the ballot any more: by its maker, or in the goroutine of a
	// connection's reader. It must not block.
	GiveBack()
}

// users is who can still reach a ballot: its maker, and each node whose answer is out. It is a set, so that leaving it
// twice changes nothing.
//
// Whoever leaves must not touch the ballot afterwards, and who leaves last gives it back. Only a course that is known
// to the end leaves: an answer that is no error, to a call that no goroutine of the pipe reads any more (pipe.Call.IsDone),
// and a maker whose ballot no Watcher and no Recorder has seen. In all other cases somebody stays in the set, and the garbage
// collector takes the ballot. So a mistake that forgets to leave costs memory alone. docs/safety.md
// (Memory that is used again) has the argument.
type users struct{ set atomic.Uint32 }

// theMaker is the maker's bit; a node's is its index. More nodes than the ballot has room for have no bits:
// such a ballot is not used again.
const theMaker = len(Ballot{}.inline)

// begin makes the set of the maker and so many nodes.
func (u *users) begin(nodes int) { u.set.Store(1<<theMaker | (1<<nodes - 1)) }

// leave takes one out, and reports whether it was the last.
func (u *users) leave(who int) (last bool) {
	bit := uint32(1) << who
	return u.set.And(^bit) == bit
}

// Leave ends the maker's use of a ballot that is over: it must not touch it afterwards.
func (b *Ballot) Leave() {
	if b.Watcher == nil && b.Recorder == nil {
		b.leave(theMaker)
	}
}

// leave ends one's use of the ballot.
func (b *Ballot) leave(who int) {
	if spare := b.Spare; spare != nil && len(b.Votes) <= theMaker && b.users.leave(who) {
		spare.GiveBack()
	}
}

// Leave ends a node's use of the ballot, after its last answer: the receiver must not touch the vote afterwards.
func (v *Vote) Leave() {
	if v.Call.IsDone() {
		v.ballot.leave(v.Node.Index)
	}
}

// Spoil makes a ballot that was given back one whose votes say nothing, and that calls reached for each answer that still
// comes to it. Tests do this in place of using the memory again.
func (b *Ballot) Spoil(reached func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Reader, b.Watcher, b.verdict = spoiled(reached), spoiled(reached), Open
	for i := range b.Votes {
		b.Votes[i].answer = Answer{}
	}
}

// spoiled is the Reader and the Watcher of a spoiled ballot.
type spoiled func()

// Read implements Reader.
func (reached spoiled) Read(*Vote, any, error) Answer {
	reached()
	return Answer{Count: NoAnswer}
}

// Answered implements Watcher.
func (reached spoiled) Answered(_ *Vote, a Answer) Answer {
	reached()
	return a
}

// Decided implements Watcher.
func (reached spoiled) Decided(Verdict, bool) { reached() }
