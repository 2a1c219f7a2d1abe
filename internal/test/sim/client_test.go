package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/simredis"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// simClient is one process: a client, and its callers.
type simClient struct {
	simClock
	run    *simRun
	index  int
	client *redlock.Client
	nodes  []int            // the servers that it takes for the masters
	links  []*simredis.Link // to each of them
	random *simRandom
	doom   atomic.Int32 // the simDoom that befalls it when it is the next waiter

	callers  []*simCaller
	observer *simObserver
	life     context.Context // ends with its death
	end      context.CancelFunc

	mu       sync.Mutex         // protects what follows
	holds    map[*simVisit]bool // the present ones
	blocked  [2]quorum.NodeSet  // the ways that are blocked: to the nodes, and from them
	diedAt   time.Duration      // 0: it lives
	closedAt time.Duration      // 0: it has not been closed
}

// newClient makes a client over links of its own.
func (r *simRun) newClient(i int) *simClient {
	p := r.plan
	clock := p.clockOf(i, r.world.Now)
	c := &simClient{run: r, index: i, simClock: clock, random: r.newSimRandom(i), holds: make(map[*simVisit]bool)}
	c.life, c.end = context.WithCancel(context.Background())
	pools := make([]redlock.Pool, p.nodes)
	c.nodes = p.reaches(i)
	for place, n := range c.nodes {
		link := r.servers[n].Link(c.name(), r.fate(i, n))
		c.links = append(c.links, link)
		if place < p.nodes {
			pools[place] = link
		}
	}
	opts := []redlock.ClientOption{redlock.WithTTL(p.ttls[i]), redlock.WithLogger(nil), redlock.WithOwnerLabel(""), testnet.WithClock(clock.clock), withWall(r.wallOf(i)), withRandom(c.random)}
	if p.changes {
		opts = append(opts, withMembers(r.servers, c.links))
	}
	if !p.renewal {
		opts = append(opts, redlock.WithoutRenewal())
	}
	client, err := redlock.New(pools, opts...)
	if err != nil {
		panic(err)
	}
	testhook.Engine(client).WatchSpares(testnet.Spoil(r.strays.of(i)))
	c.client = client
	c.observer = &simObserver{client: c}
	for k := range p.callers[i] {
		c.callers = append(c.callers, c.newCaller(k))
	}
	return c
}

// withRandom replaces the randomness.
func withRandom(r system.Random) redlock.Option { return testhook.WithRandom(r).(redlock.Option) }

// simClock is a client's clock. It knows nothing of the run, like all that the client
// is given: what a lease's cleanup can reach must not lead to the lease.
type simClock struct {
	now  func() time.Duration // the true time
	from time.Duration        // what it shows in the beginning
	rate float64
}

func (c simClock) clock() time.Duration { return c.at(c.now()) }

// at is what it shows at a true time.
func (c simClock) at(now time.Duration) time.Duration {
	return c.from + time.Duration(float64(now)*c.rate)
}

// clockOf returns the clock of a client.
func (p *simPlan) clockOf(client int, now func() time.Duration) simClock {
	return simClock{now: now, from: p.clientFrom[client], rate: p.clientRate[client]}
}

// name names the client to the servers.
func (c *simClient) name() string { return fmt.Sprint("client ", c.index) }

// indexOf returns the index of the client with this name.
func indexOf(name string) (index int) {
	if _, err := fmt.Sscanf(name, "client %d", &index); err != nil {
		panic(err)
	}
	return index
}

// trueTime is when it shows t.
func (c simClock) trueTime(t time.Duration) time.Duration {
	return time.Duration(float64(t-c.from) / c.rate)
}

// work runs all callers' work. A single caller makes the client's connections by its
// first calls.
func (c *simClient) work() {
	if c.run.plan.uses.observers && c.index < mostObservers {
		go c.observer.follow()
	}
	if m := c.run.plan.mortals; m.isAmong(c) {
		m.acts(c.callers[0])
		return
	}
	if l := c.run.plan.line; l.isAmong(c) {
		l.acts(c.callers[0])
		return
	}
	if len(c.callers) > 1 && c.warmUp(c.life) != nil {
		return
	}
	var all sync.WaitGroup
	for _, k := range c.callers {
		all.Go(k.work)
	}
	all.Wait()
}

// block cuts the client off from nodes, or no more: the first bit of ways is the one
// to them.
func (c *simClient) block(nodes quorum.NodeSet, ways int, held bool) {
	if c.isDead() && !held {
		return
	}
	if lacks := c.lacks(); !held {
		nodes &^= lacks
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, l := range c.links {
		n := c.nodes[place]
		for way := range c.blocked {
			if !nodes.Has(n) || ways>>way&1 == 0 {
				continue
			}
			l.Block(way == 0, held)
			if c.blocked[way].Remove(n); held {
				c.blocked[way].Add(n)
			}
		}
		c.run.wellness.set(n, c.index, "cut off", c.blocked[0].Has(n) || c.blocked[1].Has(n))
	}
}

func (c *simClient) isDead() bool { return c.life.Err() != nil }

// isOver reports whether the client's callers end: it is dead, or closed.
func (c *simClient) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.diedAt > 0 || c.closedAt > 0
}

// die ends the process: it sends and receives nothing any more. The machines of half of the clients die with them: then no
// server learns of the end of their connections.
func (c *simClient) die() {
	c.block(c.run.all(), 3, true)
	for _, l := range c.links {
		if c.index%2 == 1 {
			l.Vanish()
		}
	}
	c.mu.Lock()
	c.diedAt = cmp.Or(c.diedAt, c.run.world.Now())
	c.mu.Unlock()
	c.run.wellness.shakes()
	c.end()
	lasts := c.lastsAfterDeath()
	time.AfterFunc(lasts, func() { c.run.outlives(c, lasts) })
}

// close calls the client's Close. All its callers but one give up before, one after the
// other, so that their last commands have an order.
func (c *simClient) close() {
	r := c.run
	c.mu.Lock()
	if c.diedAt > 0 || c.closedAt > 0 {
		c.mu.Unlock()
		return
	}
	c.closedAt = r.world.Now()
	c.mu.Unlock()
	go func() {
		for _, k := range c.others() {
			time.Sleep(k.span(0, 19, time.Millisecond) + 1)
			k.random.await()
			k.giveUp()
		}
		time.Sleep(c.callers[0].span(0, 19, 10*time.Millisecond) + 1)
		c.random.await()
		if c.isDead() {
			return
		}
		began, awake := r.world.Now(), r.awake()
		r.history.note("client %d begins its Close", c.index)
		over := r.watchdog.does("client %d's Close", c.index)
		_ = c.client.Close()
		over()
		r.history.note("client %d is closed", c.index)
		r.wellness.shakes()
		r.history.closes(c, began, r.awake()-awake)
	}()
}

// has records a lease that a caller holds, until over is called.
func (c *simClient) has(v *simVisit) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds[v] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.holds, v)
	}
}

// held returns the leases that its callers hold.
func (c *simClient) held() (all []*simVisit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for v := range c.holds {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *simVisit) int { return cmp.Compare(a.caller.index, b.caller.index) })
	return all
}

// owns reports whether what is at a node is of an attempt of this client.
func (c *simClient) owns(p simPossession) bool {
	return markOf(c.run.history.ownerOf(p.owner)) == c.random.mark()
}
