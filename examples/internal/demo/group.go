package demo

import (
	"context"
	"sync"
)

// Group is goroutines that end together: the first error ends the context of all.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	all    sync.WaitGroup
}

// NewGroup returns a group, and the context of its goroutines.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel}, ctx
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func() error) {
	g.all.Go(func() {
		if err := f(); err != nil {
			g.cancel(err)
		}
	})
}

// Wait returns when all goroutines have ended: the first error, or why the context ended before.
func (g *Group) Wait() error {
	defer g.cancel(nil)
	g.all.Wait()
	return context.Cause(g.ctx)
}
