package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/life"
)

// lateVoteGrace is how long a waiter waits for the remaining votes, in addition to the
// time that a quorum of votes took. After it, the waiter rolls back at the nodes that have
// not answered.
const lateVoteGrace = time.Millisecond

// Await returns the final verdict, at the latest after timeout; then the votes still out
// are unknown. When ctx ends first, it returns ctx's cause. It calls impossible as soon as
// a quorum has become impossible, at most twice: for Impossible and for Failed. impossible
// may be nil.
func (b *Ballot) Await(ctx context.Context, timeout time.Duration, impossible func()) (Verdict, error) {
	timer := b.closeAfter(timeout)
	defer func() { timer.Stop() }()
	for {
		select {
		case <-b.changed:
			v := b.Verdict()
			if impossible != nil && (v == Impossible || v == Failed) {
				impossible()
			}
			if v.IsFinal() {
				return v, nil
			}
			if v == HeldElsewhere {
				timer.Stop()
				spent := b.cluster.Clock() - b.Start
				timer = b.closeAfter(min(max(timeout-spent, 0), spent+lateVoteGrace))
			}
		case <-ctx.Done():
			b.Close(ErrCallEnded)
			return Failed, life.EndOf(ctx)
		}
	}
}

func (b *Ballot) closeAfter(d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() { b.Close(fmt.Errorf("no answer within %v", d)) })
}
