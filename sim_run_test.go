package redlock

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/simredis"
)

// simRun is one simulation under way.
type simRun struct {
	plan    *simPlan
	began   time.Time
	world   *simredis.World
	servers []*simredis.Server
	clients []*simClient
	clocks  []*simServerClock

	history simHistory

	mu    sync.Mutex // protects what follows
	disks []any      // what servers come back with
	dated nodeSet    // those that came back with old data, and so with what was released since
}

// simChance is a client's randomness, from the seed and the instant.
type simChance struct {
	seed uint64
	who  uint64
	now  func() time.Duration

	mu   sync.Mutex // protects what follows
	last time.Duration
	nth  map[string]uint64 // names for a purpose at that instant
}

// mix is a random number for a place: which seed, where, and the how-manieth.
// Nothing is drawn from a generator that others share, so that nothing depends on
// the order in which goroutines come to run.
func mix(numbers ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers {
		h ^= n
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

func (c *simChance) name(purpose string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now != c.last || c.nth == nil {
		c.last, c.nth = now, make(map[string]uint64)
	}
	c.nth[purpose]++
	return fmt.Sprintf("%016X%s", mix(c.seed, c.who, uint64(c.last), c.nth[purpose], textHash(purpose)), c.mark())
}

// mark ends the names of this client.
func (c *simChance) mark() string { return fmt.Sprintf("%010d", c.who) }

func (c *simChance) below(d time.Duration, purpose string) time.Duration {
	return time.Duration(mix(c.seed, c.who, uint64(c.now()), textHash(purpose)) % uint64(d))
}

func textHash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// simulate runs a plan in the bubble of the caller, and returns its history.
func simulate(p *simPlan, verbose bool) *simHistory {
	r := &simRun{plan: p, began: time.Now(), disks: make([]any, p.nodes)}
	r.history.plan, r.history.outside = p, p.outside
	r.world = simredis.NewWorld(r.logger(verbose))
	r.history.now = r.world.Now
	for i := range p.nodes {
		c := &simServerClock{ahead: p.nodeAhead[i], rate: p.nodeRate[i]}
		r.clocks = append(r.clocks, c)
		r.servers = append(r.servers, r.world.Server(i, c.show))
	}
	for i := range p.clients {
		r.clients = append(r.clients, r.newClient(i))
	}
	events := slices.Clone(p.events)
	slices.SortStableFunc(events, func(a, b simEvent) int { return int(a.at - b.at) })
	go r.happen(events)
	var work sync.WaitGroup
	for _, c := range r.clients {
		work.Go(c.work)
	}
	work.Wait()
	r.rest()
	return &r.history
}

// simServerClock is a server's, in an odd phase to the true time.
type simServerClock struct {
	ahead   time.Duration
	rate    float64
	stepped atomic.Int64 // nanoseconds
}

func (c *simServerClock) show(now time.Duration) time.Duration {
	const epoch = 1_800_000_000 * time.Second
	return epoch + c.ahead + time.Duration(c.stepped.Load()) + time.Duration(float64(now)*c.rate)
}

// wipe is FLUSHALL.
func (r *simRun) wipe(node int) {
	r.servers[node].Wipe()
	r.history.forgets(node)
}

// write notes what a server would come back with.
func (r *simRun) write(node int, disk any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disks[node] = disk
}

func (r *simRun) disk(node int) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disks[node]
}

// outdate notes that what a server comes back with is old.
func (r *simRun) outdate(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dated.add(node)
}

// happen lets the planned events happen, and undoes in the end what lasts.
func (r *simRun) happen(events []simEvent) {
	for _, e := range events {
		time.Sleep(min(e.at, r.plan.busy) - r.awake())
		r.history.note("%s", e.text)
		e.do(r)
	}
	time.Sleep(r.plan.busy - r.awake())
	r.history.note("the trouble is over")
	for i, s := range r.servers {
		s.Freeze(false)
		s.Start(r.disk(i))
	}
	for _, c := range r.clients {
		if !c.isDead() {
			c.block(r.all(), 3, false)
		}
	}
}

// awake is the time that timers know of.
func (r *simRun) awake() time.Duration { return time.Since(r.began) }

func (r *simRun) all() nodeSet { return 1<<r.plan.nodes - 1 }

// rest lets the nodes come to rest, and notes what is left there.
func (r *simRun) rest() {
	time.Sleep(simRest)
	for i, s := range r.servers {
		for _, k := range s.Keys() {
			inLine := strings.HasPrefix(k.Name, reserved+"line:")
			if !r.dated.has(i) && (inLine && !r.haveDied(nil) || !strings.HasPrefix(k.Name, reserved) && !r.haveDied(&k)) {
				r.history.orphan(i, k)
			}
		}
	}
	for _, c := range r.clients {
		_ = c.client.Close()
	}
}

// haveDied tells that what is left may be a dead client's: any one's, or that of a
// key's owner.
func (r *simRun) haveDied(k *simredis.Key) bool {
	return slices.ContainsFunc(r.clients, func(c *simClient) bool {
		return c.isDead() && (k == nil || strings.HasSuffix(k.Text, c.chance.mark()))
	})
}

const (
	// simPatience is how long after the end of all trouble a Lock may take: where a
	// majority lost its memory, nodes do not vote for twenty seconds.
	simPatience = 60 * time.Second

	// simRest is what the last release has to reach all nodes.
	simRest = 3 * time.Second
)

// fate is what becomes of a message between a client and a node.
func (p *simPlan) fate(began time.Time, client, node int) simredis.Fates {
	return func(dialled time.Duration, toServer bool, n int) simredis.Fate {
		where := mix(p.seed, uint64(client), uint64(node), uint64(dialled), uint64(n))
		if toServer {
			where = mix(where)
		}
		dice := func(k uint64) uint64 { return mix(where, k) }
		trip := p.trip[node]
		f := simredis.Fate{Delay: trip/2 + time.Duration(dice(0)%uint64(trip))}
		awake := time.Since(began)
		if awake < p.calm || awake >= p.busy || !p.victims.has(node) {
			return f
		}
		f.Delay += p.slow[client]
		is := func(k, odds uint64) bool { return dice(k)%1_000_000 < odds }
		switch {
		case is(1, p.odds.lost):
			f.Lost = true
		case is(2, p.odds.silent):
			f.Lost, f.Silent = true, true
		case is(3, p.odds.ghost):
			f.Delay += time.Duration(dice(4) % uint64(p.ttl*3/2))
		case is(5, p.odds.slow):
			f.Delay += time.Duration(dice(6) % uint64(p.ttl/15))
		}
		f.Twice = is(7, p.odds.twice)
		return f
	}
}

// logger tells of what servers execute, where that is wanted.
func (r *simRun) logger(verbose bool) func(time.Duration, int, string, []string, any) {
	if !verbose {
		return nil
	}
	scripts := map[string]string{}
	for name, s := range map[string]*script{"acquire": acquireScript, "raise": raiseScript, "renew": renewScript,
		"release": releaseScript, "probe": probeScript, "admit": admitScript, "record": recordScript, "inspect": inspectScript} {
		scripts[s.sha.(string)], scripts[s.text.(string)] = name, name
	}
	return func(at time.Duration, server int, who string, args []string, reply any) {
		shown := slices.Clone(args)
		for i, a := range shown {
			if name := scripts[a]; name != "" {
				shown[i] = name
			}
		}
		if shown[0] == "SCRIPT" || len(shown) > 40 || shown[0] == "INFO" || shown[0] == "HGETALL" || slices.Contains(shown, "record") {
			return
		}
		r.history.add(at, fmt.Sprintf("    node %d for %s: %.300s → %.200s", server, who, strings.Join(shown, " "), simText(reply)))
	}
}

// simText shows a reply.
func simText(reply any) string {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case []any:
		all := make([]string, len(reply))
		for i, r := range reply {
			all[i] = simText(r)
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return fmt.Sprint(reply)
}
