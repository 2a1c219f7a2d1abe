package holder

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// Observer follows one lock for one caller.
type Observer struct {
	board   *Board
	of      *observed
	began   time.Duration // when the caller began to observe: an earlier look shows it nothing
	served  bool          // a later look was made; protected by the Board's lock
	changed chan struct{} // holds one signal after a change

	// Of the caller's goroutine.
	last  Holding
	known bool
}

// Observe begins to observe the lock of a key. End must follow. Errors: life.ErrClosed, or ctx's cause.
func (b *Board) Observe(ctx context.Context, key string) (*Observer, error) {
	if err := b.cfg.Life.Enter(ctx); err != nil {
		return nil, err
	}
	defer b.cfg.Life.Leave()
	b.start.Do(func() {
		b.cfg.Subscribe()
		b.cfg.Life.Go(b.run)
	})
	observer := &Observer{board: b, began: b.cfg.Clock(), changed: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.observed[key]
	if o == nil {
		o = &observed{key: key, observers: make(map[*Observer]struct{}), place: len(b.order), due: system.Forever, began: -1}
		b.observed[key], b.order = o, append(b.order, o)
		b.cfg.Channels.Set(protocol.NewsChannel(key), true)
	}
	observer.of = o
	o.observers[observer] = struct{}{}
	b.lookAt(o, 0)
	return observer, nil
}

// Next returns the present holding, when it differs from the last one. Errors: life.ErrClosed, or ctx's cause.
func (o *Observer) Next(ctx context.Context) (Holding, error) {
	b := o.board
	for {
		b.mu.Lock()
		h, known := o.of.last, o.of.known && o.of.began >= o.began
		b.mu.Unlock()
		if known && !(o.known && h.isSame(&o.last)) {
			o.last, o.known = h, true
			return h, nil
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return Holding{}, life.EndOf(ctx)
		case <-b.cfg.Life.Closing():
			return Holding{}, life.ErrClosed
		}
	}
}

// signal has Next look at what there is.
func (o *Observer) signal() {
	select {
	case o.changed <- struct{}{}:
	default: // it has not taken the last change yet, and gets this one instead
	}
}

// End ends it.
func (o *Observer) End() {
	b := o.board
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(o.of.observers, o)
	if len(o.of.observers) > 0 {
		return
	}
	b.forget(o.of)
	delete(b.observed, o.of.key)
	last := len(b.order) - 1
	b.order[o.of.place] = b.order[last]
	b.order[o.of.place].place = o.of.place
	b.order[last] = nil
	b.order = b.order[:last]
	b.cfg.Channels.Set(protocol.NewsChannel(o.of.key), false)
}
