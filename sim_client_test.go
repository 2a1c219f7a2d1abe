package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/simredis"
)

// simClient is one process: a client, and one caller of it.
type simClient struct {
	simClock
	run    *simRun
	index  int
	client *Client
	links  []*simredis.Link // to each node
	chance *simChance
	holds  atomic.Pointer[simVisit] // the present one

	life context.Context // ends with its death
	end  context.CancelFunc
}

// newClient makes a client over links of its own.
func (r *simRun) newClient(i int) *simClient {
	p := r.plan
	clock := simClock{now: r.world.Now, from: p.clientFrom[i], rate: p.clientRate[i]}
	c := &simClient{run: r, index: i, simClock: clock, chance: &simChance{seed: p.seed, who: uint64(i), now: r.world.Now}}
	c.life, c.end = context.WithCancel(context.Background())
	pools := make([]Pool, p.nodes)
	for n, s := range r.servers {
		link := s.Link(fmt.Sprintf("client %d", i), p.fate(r.began, i, n))
		c.links = append(c.links, link)
		pools[n] = link
	}
	opts := []Option{WithTTL(p.ttls[i]), WithLogger(nil), WithOwnerLabel(""), withClock(clock.clock), withChance(c.chance)}
	if !p.renewal {
		opts = append(opts, WithoutRenewal())
	}
	client, err := New(pools, opts...)
	if err != nil {
		panic(err)
	}
	c.client = client
	return c
}

// withChance replaces the randomness.
func withChance(c chance) Option {
	return func(o *options) error {
		o.chance = c
		return nil
	}
}

// simClock is a client's clock. It knows nothing of the run, like all that the client
// is given: what a lease's cleanup can reach must not lead to the lease.
type simClock struct {
	now  func() time.Duration // the true time
	from time.Duration        // what it shows in the beginning
	rate float64
}

func (c simClock) clock() time.Duration {
	return c.from + time.Duration(float64(c.now())*c.rate)
}

// trueTime is when it shows t.
func (c simClock) trueTime(t time.Duration) time.Duration {
	return time.Duration(float64(t-c.from) / c.rate)
}

// block cuts the client off from nodes, or no more: the first bit of ways is the one
// to them.
func (c *simClient) block(nodes nodeSet, ways int, held bool) {
	if c.isDead() && !held {
		return
	}
	for n, l := range c.links {
		if nodes.has(n) && ways&1 != 0 {
			l.Block(true, held)
		}
		if nodes.has(n) && ways&2 != 0 {
			l.Block(false, held)
		}
	}
}

// resetInRenewal ends the client's connections when the next renewal of its lease is
// under way, if it has one, else at once.
func (c *simClient) resetInRenewal(arrive int) {
	var in time.Duration
	if v := c.holds.Load(); v != nil {
		h := v.lease.h
		h.mu.Lock()
		if h.renewAt < h.until {
			in = c.trueTime(h.renewAt) - c.run.world.Now() + c.run.plan.trip[0]*3/4
		}
		h.mu.Unlock()
	}
	time.AfterFunc(in, func() {
		for _, l := range c.links {
			l.Reset(arrive)
		}
	})
}

func (c *simClient) isDead() bool { return c.life.Err() != nil }

// die ends the process: it sends and hears nothing any more.
func (c *simClient) die() {
	c.end()
	c.block(c.run.all(), 3, true)
}

// roll is a random number below n for the client's so-manieth decision.
func (c *simClient) roll(turn, what, n uint64) uint64 {
	return mix(c.run.plan.seed, 77, uint64(c.index), turn, what) % n
}

func (c *simClient) span(turn, what uint64, most time.Duration) time.Duration {
	return time.Duration(c.roll(turn, what, uint64(most)))
}

// work takes locks until the time of trouble is over, and once more then.
func (c *simClient) work() {
	p, h := c.run.plan, &c.run.history
	for turn := uint64(1); c.run.awake() < p.busy && !c.isDead(); turn++ {
		time.Sleep(c.span(turn, 0, p.ttl/4+time.Millisecond))
		c.turn(turn)
	}
	time.Sleep(p.busy + c.span(0, 0, time.Second) - c.run.awake())
	if c.isDead() {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, simPatience)
	defer cancel()
	for lock := range p.locks {
		v := h.call(c, c.mutex(lock), true)
		lease, err := v.mutex.Lock(ctx)
		v.returned(lease, err)
		if err != nil {
			h.fail("client %d is not served when all trouble is over: %v", c.index, err)
			continue
		}
		c.visit(v, c.span(0, 1, 5*time.Millisecond))
	}
	for k := range uint64(3) { // attempts that fail: nothing of them may stay
		if lease, err := c.mutex(0).TryLock(ctx); err == nil {
			time.Sleep(c.span(k, 17, 3*time.Millisecond))
			_ = lease.Unlock(ctx)
		}
		time.Sleep(c.span(k, 18, 5*time.Millisecond))
	}
}

func (c *simClient) mutex(lock int) *Mutex { return c.client.Mutex(fmt.Sprintf("lock-%d", lock)) }

// turn is one call of Lock or TryLock, and what follows.
func (c *simClient) turn(turn uint64) {
	p := c.run.plan
	m := c.mutex(int(c.roll(turn, 1, uint64(p.locks))))
	waits := c.roll(turn, 2, 4) > 0
	var tail *simTailLoss
	if p.kind == simTails && c.roll(turn, 5, 2) == 0 {
		tail = c.newTailLoss(turn)
		defer tail.over()
	}
	v := c.run.history.call(c, m, waits)
	var lease *Lease
	var err error
	if waits {
		patience := p.busy + simPatience - c.run.awake()
		if c.roll(turn, 3, 4) == 0 {
			patience = c.span(turn, 4, 2*p.ttl)
		}
		ctx, cancel := context.WithTimeout(c.life, patience)
		lease, err = m.Lock(ctx)
		cancel()
	} else {
		lease, err = m.TryLock(c.life)
	}
	v.returned(lease, err)
	if err != nil {
		return
	}
	if p.kind == simVerdicts && p.renewal && c.run.awake() < p.busy && c.roll(turn, 5, 3) == 0 {
		c.edge(v, turn)
	}
	if tail != nil {
		tail.strike()
		v.tried = true
	}
	if p.kind == simFlaps && c.roll(turn, 5, 2) == 0 && c.run.awake() < p.busy {
		c.flap(turn)
		v.tried = true
	}
	hold := c.span(turn, 6, 20*time.Millisecond)
	if v.tried {
		hold = 2 * p.ttls[c.index]
	}
	if c.roll(turn, 7, 3) == 0 {
		hold = c.span(turn, 8, 2*p.ttl)
	}
	c.visit(v, min(hold, max(p.busy-c.run.awake(), 0)+20*time.Millisecond))
}

// visit is what a holder does: now and then it looks whether it still is one, and
// writes to what the lock protects.
func (c *simClient) visit(v *simVisit, hold time.Duration) {
	c.holds.Store(v)
	defer c.holds.Store(nil)
	until := c.run.awake() + hold
	for k := uint64(1); ; k++ {
		if c.isDead() {
			break
		}
		if !v.look() {
			time.Sleep(c.span(k, 16, c.run.plan.ttl/10))
			v.lookAgain()
			break
		}
		left := until - c.run.awake()
		if left <= 0 {
			break
		}
		time.Sleep(min(left, c.span(k, 9, c.run.plan.ttl/8)+1))
	}
	v.leaves()
	if !c.isDead() {
		v.left(v.lease.Unlock(context.Background()))
	}
}

// flap lets a holder reach q-1 nodes for a while, then none, then others, which make a
// quorum with those only if votes of different renewals are added up.
func (c *simClient) flap(turn uint64) {
	p := c.run.plan
	nodes := c.run.all()
	first, second := nodes, nodes // who cannot be reached
	from := int(c.roll(turn, 20, uint64(p.nodes)))
	for i := range p.quorum() - 1 {
		first.remove((from + i) % p.nodes)
	}
	second.remove((from + p.quorum() - 1) % p.nodes)
	ttl := p.ttls[c.index]
	steps := []struct {
		apart nodeSet
		last  time.Duration
	}{{first, ttl/3 + c.span(turn, 21, ttl/4)}, {nodes, c.span(turn, 22, ttl/4)}, {second, ttl * 3 / 2}, {0, 0}}
	var at time.Duration
	for _, s := range steps {
		time.AfterFunc(at, func() {
			if c.run.awake() >= p.busy {
				return
			}
			c.block(nodes, 3, false)
			c.block(s.apart, 3, true)
			c.run.history.note("client %d does not reach %b", c.index, s.apart)
		})
		at += s.last
	}
}

// edge holds back what the lease's renewals send, or are told, until around the
// last nanosecond of its validity.
func (c *simClient) edge(v *simVisit, turn uint64) {
	off := []time.Duration{-time.Millisecond, -10 * time.Microsecond, -2, -1, 0, 1, 2, 10 * time.Microsecond,
		c.run.plan.ttl / 30, c.run.plan.ttl / 8}[c.roll(turn, 10, 10)]
	v.tried = true
	end := c.trueTime(v.lease.h.validity()) + off
	time.AfterFunc(end-off-c.run.world.Now()+time.Microsecond, func() { v.dead.Store(!v.lease.Valid()) })
	ways := 1 + int(c.roll(turn, 11, 3))
	c.run.history.note("client %d is cut off until %v from its validity's end, ways %d", c.index, off, ways)
	c.block(c.run.all(), ways, true)
	time.AfterFunc(end-c.run.world.Now(), func() {
		if !c.isDead() && c.run.awake() < c.run.plan.busy {
			c.block(c.run.all(), ways, false)
		}
	})
}
