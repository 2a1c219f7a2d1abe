package redlock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redlock-go/redlock/internal/operate"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/printable"
)

// Locks lists the locks that are held or waited for and match a pattern of Redis's SCAN, in no
// order, each as Inspect returns it. Without a quorum it yields what the other nodes say, with
// Incomplete set.
//
// A last pair may have an error: a *QuorumError (ErrNoQuorum), ctx's cause, ErrClosed, or ErrConfig
// for an empty pattern.
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if pattern == "" {
			yield(Status{}, configError(`the pattern of Locks is empty: "*" matches all names`))
			return
		}
		ended, incomplete := false, error(nil)
		failure := c.listing().Run(ctx, pattern, func(f *operate.Found) (shown, more bool) {
			s, err := c.status("list", f)
			least := c.cluster.Need()
			if f.Said() < least {
				least, incomplete = 1, cmp.Or(incomplete, err)
			}
			if s.nodesInUse() < least {
				return false, true
			}
			ended = !yield(s, nil)
			return true, !ended
		})
		if failed := cmp.Or(c.listError(pattern, failure), incomplete); failed != nil && !ended {
			yield(Status{}, failed)
		}
	}
}

// listing returns what a listing needs of the client.
func (c *Client) listing() *operate.Listing {
	return &operate.Listing{Clock: c.opts.clock, Life: c.life, Nodes: c.cluster.Nodes(), Need: c.cluster.Need(),
		Timeout: c.opts.voteTimeout(), PageTimeout: c.deadAfter(), Prefix: c.opts.prefix}
}

// What packages of this library may ask beside.
func init() {
	peek.SetReadsOnly(clientOption(func(o *options) error {
		o.readsOnly = true
		return nil
	}))
	peek.SetGroup(func(client any) any { return client.(*Client).group })
	peek.Set(func(ctx context.Context, c *Client, names []string, semaphores bool, show func(*Status, time.Duration)) error {
		failure := c.listing().Look(ctx, names, semaphores, func(f *operate.Found) {
			s, _ := c.status("inspect", f) // which says if it is incomplete
			show(&s, f.Begun)
		})
		return c.listError("", failure)
	})
}

// listError returns why a listing ended early; nil if it did not.
func (c *Client) listError(pattern string, failure *operate.Failure) error {
	switch {
	case failure == nil:
		return nil
	case failure.Cause != nil:
		return fmt.Errorf("redlock: list %q: %w", printable.Cut(pattern), failure.Cause)
	}
	return &QuorumError{Op: "list", Name: pattern, Need: failure.Need, Elapsed: failure.Took,
		Votes: c.votesFor(failure.Nodes)}
}

// nodesInUse returns at how many nodes something stands for the lock, or the semaphore, of this name: a
// holder, readers, a reservation, permits or waiters.
func (s *Status) nodesInUse() (nodes int) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Holder != "" || n.Reserved != "" || len(n.Readers)+len(n.Permits)+len(n.Queue) > 0 {
			nodes++
		}
	}
	return nodes
}
