// Leader elects one of several candidates with Mutex.Do, and the next one when the leader
// resigns or is cut off.
//
//	go run ./examples/leader
//
// The candidate whose fn is running in Do leads, until fn returns or its context ends. The
// context ends before another candidate can be elected: so leaders that stop when it ends
// never overlap. Terms have increasing numbers, which are the fencing tokens.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

const (
	// ttl is how long a leader that died or was cut off keeps the office.
	ttl = 3 * time.Second

	// beat is how often a leader does its work, and term for how long at most.
	beat = 100 * time.Millisecond
	term = 350 * time.Millisecond
)

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	o := &office{demo: d, start: time.Now(), seen: make(map[string]bool)}
	// Anna resigns. Ben cannot renew, as if he were cut off from the nodes; so he must
	// stop by himself. Clara waits for both.
	all, ctx := demo.NewGroup(ctx)
	for _, c := range []candidate{{name: "anna", resigns: true}, {name: "ben", cutOff: true}, {name: "clara", resigns: true}} {
		c.office = o
		client, err := d.Open(ctx, c.name, redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		all.Go(func() error { return c.run(ctx, client) })
		o.awaitTurn(ctx, client, c.name) // they wait in this order
	}
	return all.Wait()
}

// office is the state that all candidates share.
type office struct {
	demo  *demo.Demo
	start time.Time

	mu      sync.Mutex      // protects what follows
	leading string          // nobody if empty
	valid   func() bool     // whether it may lead still: two at once would be the mistake
	seen    map[string]bool // candidates that have led
}

// awaitTurn waits until the candidate is in the wait queue, if it does not lead at once.
func (o *office) awaitTurn(ctx context.Context, client *redlock.Client, name string) {
	for ; !o.hasSeen(name) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		s, _ := client.Inspect(ctx, "leader")
		if slices.ContainsFunc(s.Queue, func(w redlock.WaiterStatus) bool { return w.Label == name }) {
			return
		}
	}
}

func (o *office) hasSeen(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[name]
}

// candidate is one process that may lead.
type candidate struct {
	name    string
	resigns bool // leaves after a term
	cutOff  bool // its renewals fail
	office  *office
}

// run waits until the candidate has led once. A real candidate would go on forever: after a
// resignation or a loss it would wait again.
func (c candidate) run(ctx context.Context, client *redlock.Client) error {
	var opts []redlock.LockOption
	if c.cutOff {
		opts = append(opts, redlock.WithoutRenewal())
	}
	err := client.Mutex("leader", opts...).Do(ctx, c.lead)
	if c.cutOff && errors.Is(err, redlock.ErrLost) {
		return nil // the office was lost meanwhile
	}
	return err
}

// lead is the work of the leader. It ends with ctx.
func (c candidate) lead(ctx context.Context, lease *redlock.Lease) error {
	if err := c.office.enter(c.name, lease.Token(), lease.Valid); err != nil {
		return err
	}
	defer c.office.leave(c.name)
	work := time.NewTicker(beat)
	defer work.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			c.office.say("%s stops: %v.", c.name, context.Cause(ctx))
			return nil
		case <-work.C:
			if c.resigns && time.Since(began) > term {
				c.office.say("%s resigns.", c.name)
				return nil
			}
		}
	}
}

// enter refuses a leader beside another one whose lease is valid. One that was cut off
// may not know of its end yet, where the machine is busy.
func (o *office) enter(name string, token int64, valid func() bool) error {
	o.say("%s leads, term %d.", name, token)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leading != "" && o.valid() {
		return fmt.Errorf("%s leads beside %s", name, o.leading)
	}
	o.leading, o.valid, o.seen[name] = name, valid, true
	return nil
}

func (o *office) leave(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leading == name {
		o.leading = ""
	}
}

func (o *office) say(format string, args ...any) {
	o.demo.Say("%4d ms  %s", time.Since(o.start).Milliseconds(), fmt.Sprintf(format, args...))
}
