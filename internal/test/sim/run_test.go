package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/simredis"
)

// simRun is one simulation under way. Its clients, faults and checks all act on it.
type simRun struct {
	*simInstants
	plan    *simPlan
	world   *simredis.World
	servers []*simredis.Server
	clients []*simClient
	clocks  []*simServerClock

	history    simHistory
	wellness   *simWellness
	admissions simAdmissions
	beginnings simBeginnings
	watchdog   simWatchdog
	strays     *simStrays
	work       sync.WaitGroup // clients, and callers that resume leases

	mu       sync.Mutex        // protects what follows
	calls    map[*simCall]bool // those that wait
	resumers []*simCaller      // further callers, of all clients
	disks    []any             // what servers come back with
	dated    quorum.NodeSet    // those that came back with old data, and so with keys that were released since
}

// simInstants is a simulation's time. It leads to nothing else of it: see fate.
type simInstants struct {
	began time.Time
	slept atomic.Int64 // nanoseconds for which everybody was suspended
}

// now is the true time since the beginning.
func (t *simInstants) now() time.Duration { return t.awake() + time.Duration(t.slept.Load()) }

// awake is the time that timers know of.
func (t *simInstants) awake() time.Duration { return time.Since(t.began) }

// simulate runs a plan in the bubble of the caller, and returns its history.
func simulate(p *simPlan, verbose bool) *simHistory {
	r := &simRun{plan: p, simInstants: &simInstants{began: time.Now()}, wellness: &simWellness{}, strays: &simStrays{}, disks: make([]any, p.servers()), calls: make(map[*simCall]bool)}
	r.history.run, r.history.plan, r.history.outside = r, p, p.outside
	r.history.rested, r.history.renewed = make(map[simRested]bool), make(map[string]time.Duration)
	r.history.passed = make(map[string]string)
	r.beginnings.quorum = p.quorum()
	r.beginnings.clock = func(name string, at time.Duration) time.Duration { return p.clockOf(indexOf(name), r.world.Now).at(at) }
	r.beginnings.wall = func(name string, at time.Duration) time.Time { return p.newWall(indexOf(name))(at) }
	r.wellness.now, r.strays.now = r.simInstants.now, r.simInstants.now
	r.world = simredis.NewWorld(r.logger(verbose))
	unwatch := r.watchdog.watch(p, panics)
	r.history.now = r.simInstants.now // takes no lock: hooks of the servers call it too
	if p.uses.lateness {
		r.world.ForbidClient()
	}
	for i := range p.servers() {
		c := &simServerClock{ahead: p.nodeAhead[i], rate: p.nodeRate[i]}
		r.clocks = append(r.clocks, c)
		r.servers = append(r.servers, r.world.Server(i, c.show))
		r.wellness.set(i, everybody, notAdmitted, true)
	}
	for i := range p.clients {
		r.clients = append(r.clients, r.newClient(i))
	}
	r.deafens()
	events := slices.Clone(p.events)
	slices.SortStableFunc(events, func(a, b simEvent) int { return cmp.Compare(a.at, b.at) })
	go r.happen(events)
	for _, c := range r.clients {
		r.work.Go(c.work)
	}
	if p.burst != nil {
		r.work.Go(func() { r.bursts(p.burst) })
	}
	r.work.Wait()
	r.rest()
	r.world.End()
	unwatch()
	forgetTimers()
	r.strays.report(&r.history)
	return &r.history
}

// forgetTimers lets so much time pass that no timer of the bubble stays. A timer that was stopped
// stays in the bubble's list until its time comes, each timer leads to that list, and a client keeps
// timers. So a lease's cleanup would lead to all that the stopped timers' functions refer to: see fate.
func forgetTimers() { time.Sleep(simLongestRun + simPatience) }

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

// write records what a server would come back with.
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

// outdate records that what a server comes back with is old.
func (r *simRun) outdate(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dated.Add(node)
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
	for i := range r.servers {
		r.freeze(i, false)
		r.start(i)
	}
	for _, c := range r.clients {
		if !c.isDead() {
			c.block(r.all(), 3, false)
		}
	}
}

func (r *simRun) all() quorum.NodeSet { return 1<<r.plan.servers() - 1 }

// rest lets the nodes come to rest, and records what is left there.
func (r *simRun) rest() {
	time.Sleep(simRest)
	r.mu.Lock()
	dated := r.dated
	r.mu.Unlock()
	for i, s := range r.servers {
		if dated.Has(i) || r.plan.uses.lateness {
			continue
		}
		leaves := func(c *simClient) bool { return c.isOver() || c.lacks().Has(i) } // what it has there stays for a ttl
		for _, k := range s.Keys() {
			if strings.HasPrefix(k.Name, protocol.Key("queue", "")) && !slices.ContainsFunc(r.clients, leaves) {
				r.history.orphan(i, simPossession{key: k.Name, left: k.Left})
			}
		}
		for _, p := range possessions(s) {
			// ForceUnlock and a deletion leave shares that count for nothing until they end.
			replaced := p.void && (r.plan.kind == simDeleted || len(r.history.forced) > 0)
			left := isTransferred(&r.history, p) && (len(r.history.forced) > 0 || slices.ContainsFunc(r.clients, leaves))
			if !replaced && !left && !r.plan.setBack && !stays(&r.history, p) && !slices.ContainsFunc(r.clients, func(c *simClient) bool { return leaves(c) && c.owns(p) }) {
				r.history.orphan(i, p)
			}
		}
	}
	for _, c := range r.clients {
		c.observer.end()
	}
	r.admissions.end(r.now())
	for _, c := range r.clients {
		over := r.watchdog.does("client %d's last Close", c.index)
		_ = c.client.Close()
		over()
	}
}

const (
	// simPatience is how long after the end of all trouble a Lock may take: where a
	// majority lost its memory, nodes do not vote for twenty seconds.
	simPatience = 60 * time.Second

	// simRest is what the last release has to reach all nodes.
	simRest = 3 * time.Second
)

// logger logs what servers execute, where that is wanted.
func (r *simRun) logger(verbose bool) func(time.Duration, int, string, []string, any) {
	if !verbose {
		return r.executed
	}
	scripts := map[string]string{}
	for _, s := range protocol.All {
		scripts[s.SHA().(string)], scripts[s.Text().(string)] = s.Name, s.Name
	}
	return func(at time.Duration, server int, who string, args []string, reply any) {
		r.executed(at, server, who, args, reply)
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

// simWatchdog ends a run that does not end: it says which calls of the library are under way.
type simWatchdog struct {
	mu       sync.Mutex     // protects what follows
	underWay map[string]int // calls of the library, by their descriptions
}

// simLongestRun is how long a run may take, in virtual time. The longest take three minutes.
const simLongestRun = time.Hour

// does records a call of the library, until over is called.
func (w *simWatchdog) does(format string, args ...any) (over func()) {
	what := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.underWay == nil {
		w.underWay = make(map[string]int)
	}
	w.underWay[what]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.underWay[what]--; w.underWay[what] == 0 {
			delete(w.underWay, what)
		}
	}
}

// watch calls bark if the run is not over in time; over ends the watch.
func (w *simWatchdog) watch(p *simPlan, bark func(text string)) (over func()) {
	timer := time.AfterFunc(simLongestRun, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		bark(fmt.Sprintf("seed %d (%s): it is not over after %v of virtual time; under way: %s\nreplay it with: %s",
			p.seed, p.kind, simLongestRun, strings.Join(slices.Sorted(maps.Keys(w.underWay)), ", "), p.replay()))
	})
	return func() { timer.Stop() }
}

// panics is how the watchdog of a run barks: what waits for ever cannot be ended otherwise, and its
// pings would keep virtual time going.
func panics(text string) { panic(text) }

func TestWatchdogNamesTheCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w simWatchdog
		var barked []string
		over := w.watch(&simPlan{seed: 7, kind: simAnything}, func(text string) { barked = append(barked, text) })
		defer over()
		w.does("client %d's call", 0)()
		_ = w.does("client %d's Close", 1)
		time.Sleep(simLongestRun + 1)
		synctest.Wait()
		require.Len(t, barked, 1)
		require.Contains(t, barked[0], "seed 7 (anything)")
		require.Contains(t, barked[0], "under way: client 1's Close\n")
	})
}

// simStrays records the answers that reach a ballot after it was given back. Engines lead to it, so
// it must not lead to the history: see fate.
type simStrays struct {
	now func() time.Duration

	mu  sync.Mutex // protects what follows
	all []simStray
}

type simStray struct {
	at     time.Duration
	client int
}

// of returns what a client's engine calls for each of them.
func (s *simStrays) of(client int) (reached func()) {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, simStray{s.now(), client})
	}
}

// report records them as violations.
func (s *simStrays) report(h *simHistory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stray := range s.all {
		h.failAt(stray.at, fmt.Sprintf("client %d reached a ballot that was given back", stray.client))
	}
}
