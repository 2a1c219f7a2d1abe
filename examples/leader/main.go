// Leader elects one of several candidates with Mutex.Lead, and the next one when the leader
// resigns or is cut off. Two followers learn by Mutex.Observe where the leader serves.
//
//	go run ./examples/leader
//
// The candidate whose fn is running in Lead leads, until fn returns or its context ends. The
// context ends before another candidate can be elected: so leaders that stop when it ends
// never overlap. Terms have increasing numbers, which are the fencing tokens.
package main

import (
	"context"
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
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	o := &office{demo: d, start: time.Now(), fail: fail, seen: make(map[string]bool)}
	following, stop := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	for _, name := range []string{"follower 1", "follower 2"} {
		client, err := d.Open(ctx, name)
		if err != nil {
			return err
		}
		defer client.Close()
		followers.Go(func() { o.follow(following, client, name) })
	}

	// The first one resigns once. The second one cannot renew, as if it were cut off from the
	// nodes; so it must stop by itself. Each has done its work at the end of its last term.
	all, ctx := demo.NewGroup(ctx)
	for _, c := range []candidate{
		{address: "10.0.0.7:8080", terms: 2},
		{address: "10.0.0.8:8080", terms: 2, cutOff: true},
		{address: "10.0.0.9:8080", terms: 1},
	} {
		c.office = o
		client, err := d.Open(ctx, c.address, redlock.WithTTL(ttl)) // the label is where it serves
		if err != nil {
			return err
		}
		defer client.Close()
		all.Go(func() error { return c.run(ctx, client) })
		o.awaitTurn(ctx, client, c.address) // they wait in this order
	}
	return all.Wait()
}

// candidate is one process that may lead.
type candidate struct {
	address string
	terms   int  // that it leads
	cutOff  bool // its renewals fail
	office  *office
	led     int // terms so far
}

func (c *candidate) run(ctx context.Context, client *redlock.Client) error {
	var opts []redlock.LockOption
	if c.cutOff {
		opts = append(opts, redlock.WithoutRenewal())
	}
	return client.Mutex("leader", opts...).Lead(ctx, c.lead)
}

// lead is the work of the leader. It ends with ctx.
func (c *candidate) lead(ctx context.Context, lease *redlock.Lease) error {
	if err := c.office.enter(c.address, lease.Token(), lease.Valid); err != nil {
		c.office.fail(err)
		return err
	}
	defer c.office.leave(c.address)
	c.led++
	work := time.NewTicker(beat)
	defer work.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			c.office.say("%s stops: %v.", c.address, context.Cause(ctx))
			return context.Cause(ctx) // Lead stands for election again
		case <-work.C:
			switch {
			case c.led == 1 && c.cutOff || time.Since(began) < term:
			case c.led < c.terms:
				c.office.say("%s resigns.", c.address)
				return redlock.ErrResign // it stands again at once, behind those that wait
			default:
				c.office.say("%s has done its work.", c.address)
				return nil
			}
		}
	}
}

// office is the state that all candidates share.
type office struct {
	demo  *demo.Demo
	start time.Time
	fail  context.CancelCauseFunc // ends the example

	mu      sync.Mutex      // protects what follows
	leading string          // nobody if empty
	valid   func() bool     // whether it may lead still: two at once would be the mistake
	seen    map[string]bool // candidates that have led
}

// follow prints the leader's address and term. A follower sends its requests there, each with the
// term, so that the resource behind the leader can refuse an earlier term.
func (o *office) follow(ctx context.Context, client *redlock.Client, name string) {
	for leader, err := range client.Mutex("leader").Observe(ctx) {
		switch {
		case err != nil: // too few nodes answer: it goes on. Or ctx has ended
		case leader.Owner == "":
			o.say("%s: nobody leads.", name)
		default:
			o.say("%s: the leader is %s, term %d.", name, leader.Label, leader.Token)
		}
	}
}

// awaitTurn waits until the candidate is in the wait queue, if it does not lead at once.
func (o *office) awaitTurn(ctx context.Context, client *redlock.Client, address string) {
	for ; !o.hasSeen(address) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		s, _ := client.Inspect(ctx, "leader")
		if slices.ContainsFunc(s.Queue, func(w redlock.WaiterStatus) bool { return w.Label == address }) {
			return
		}
	}
}

func (o *office) hasSeen(address string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[address]
}

// enter refuses a leader beside another one whose lease is valid. One that was cut off
// may not know of its end yet, where the machine is busy.
func (o *office) enter(address string, token int64, valid func() bool) error {
	o.say("%s leads, term %d.", address, token)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leading != "" && o.valid() {
		return fmt.Errorf("%s leads beside %s", address, o.leading)
	}
	o.leading, o.valid, o.seen[address] = address, valid, true
	return nil
}

func (o *office) leave(address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leading == address {
		o.leading = ""
	}
}

func (o *office) say(format string, args ...any) {
	o.demo.Say("%4d ms  %s", time.Since(o.start).Milliseconds(), fmt.Sprintf(format, args...))
}
