package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// A burst: at one instant one client asks for very many locks that are free, and the nodes take a time for
// each command. If the client sent all of that at once, most answers would come after its node timeout.

// simBurst is the burst of a plan.
type simBurst struct {
	client  int
	calls   int
	how     simBurstHow
	timeout time.Duration // the client's node timeout
	service time.Duration // that a command takes a node
	severe  bool          // even as many attempts as a client begins with are too many
	cancels bool          // one of fifty calls is cancelled meanwhile
	frozen  int           // the node that is frozen meanwhile; -1: none
	begins  time.Duration
}

// simBurstHow is what the callers of a burst call.
type simBurstHow int

const (
	burstLock    simBurstHow = iota // Lock, each of a name of its own
	burstRLock                      // RLock of one name
	burstTryLock                    // TryLock, each of a name of its own
	burstAcquire                    // Acquire of one permit each of a semaphore that has enough for all
	burstMixed                      // all of these, in turn
)

func (h simBurstHow) String() string {
	return []string{"Lock", "RLock", "TryLock", "Acquire", "all kinds"}[h]
}

const (
	// burstCommands is how many commands an attempt and its release take a node, at most.
	burstCommands = 5

	// burstFirst is how many attempts a client begins with, before it has learned how fast the nodes are.
	burstFirst = 64

	// burstShare is how many commands a node executes within a node timeout: those of most of the first
	// attempts, and not those of a burst.
	burstShare = 180

	// burstPlace is the place of a burst's first caller, behind all others of its client.
	burstPlace = 2_000_000_000
)

// drawBurst decides whether there is a burst. It comes when the new cluster has come to life and counts as
// well, and the trouble begins when it must be over. Kinds in which holders make trouble at any time have none.
func drawBurst(p *simPlan, draw *rand.Rand) {
	if draw.IntN(4) > 0 || slices.Contains([]simKind{simVerdicts, simRestarts, simFlaps, simTails}, p.kind) {
		return
	}
	// The others' node timeouts are as long or longer: what this client has sent keeps none from an answer.
	client := slices.Index(p.ttls, slices.Min(p.ttls))
	b := &simBurst{
		client:  client,
		calls:   160 + draw.IntN(protocol.MaxPermits-160),
		how:     simBurstHow(draw.IntN(int(burstMixed) + 1)),
		timeout: min(max(p.ttls[client]/20, 5*time.Millisecond), 500*time.Millisecond), // the library's default
		severe:  draw.IntN(4) == 0,
		cancels: draw.IntN(3) == 0,
		frozen:  -1,
		begins:  p.calm + simNotices,
	}
	if node := draw.IntN(p.nodes); draw.IntN(4) == 0 && p.victims.Has(node) {
		b.frozen = node
	}
	if b.service = b.timeout / burstShare; b.severe {
		b.service *= 3
	}
	p.burst = b
	for i := range p.trip {
		p.trip[i] = min(p.trip[i], b.timeout/20)
	}
	clear(p.slow)
	if draw.IntN(4) > 0 {
		p.odds = simOdds{}
	}
	lull := simNotices + b.most()
	p.busy += lull
	for i := range p.events {
		p.events[i].at += lull
	}
}

// most returns how long a call of the burst may take: as long as the nodes need for all commands of the
// burst, and some pauses.
func (b *simBurst) most() time.Duration {
	return time.Second + burstCommands*time.Duration(b.calls)*b.service
}

// mostOfTry returns how long a TryLock of the burst may take: a node timeout until its turn comes, and then its tries.
func (b *simBurst) mostOfTry() time.Duration { return 4 * b.timeout }

// simBurstCall is one call of a burst.
type simBurstCall struct {
	caller    *simCaller
	lock      simLock
	tries     bool // it calls TryLock
	cancelled bool // by its caller, meanwhile
	took      time.Duration
	err       error
}

// simBurstHistory is how the burst of a run went.
type simBurstHistory struct {
	calls        []*simBurstCall
	began, ended time.Duration
	vain         int // attempts of the client that nodes were asked in, and too few answered in time
}

// bursts makes the burst.
func (r *simRun) bursts(b *simBurst) {
	c, h := r.clients[b.client], &simBurstHistory{}
	time.Sleep(b.begins - r.awake())
	c.random.await()
	if c.warmUp(c.life) != nil {
		return
	}
	for i, s := range r.servers {
		s.Slow(b.service)
		if i == b.frozen {
			r.freeze(i, true)
		}
	}
	before := attemptsInVain(c.client)
	h.began = r.now()
	r.history.note("client %d makes a burst of %d calls (%v), of nodes that take %v for a command; node %d is frozen", b.client, b.calls, b.how, b.service, b.frozen)
	var all sync.WaitGroup
	for k := range b.calls {
		call := b.newCall(c, k)
		h.calls = append(h.calls, call)
		all.Go(func() { call.work(b) })
	}
	all.Wait()
	h.ended, h.vain = r.now(), attemptsInVain(c.client)-before
	r.history.note("the burst is over, with %d attempts in vain", h.vain)
	for i, s := range r.servers {
		s.Slow(0)
		if i == b.frozen {
			r.freeze(i, false)
		}
	}
	r.history.burst = h
}

// attemptsInVain returns how many attempts a client has made that too few nodes answered. Those of waiters that found
// the nodes behind by more than a node timeout do not count: they asked no node.
func attemptsInVain(c *redlock.Client) int {
	unasked := uint64(math.MaxUint64)
	for _, n := range testhook.Engine(c).Cluster.Nodes() {
		unasked = min(unasked, n.Counters.Votes[quorum.NotSent].Load())
	}
	return int(c.Stats().NoQuorum - unasked)
}

// newCall makes the call of one of the burst's callers.
func (b *simBurst) newCall(c *simClient, k int) *simBurstCall {
	caller := c.newCaller(burstPlace + k)
	how, random := b.how, withRandom(caller.random)
	if how == burstMixed {
		how = simBurstHow(k % int(burstMixed))
	}
	call := &simBurstCall{caller: caller, tries: how == burstTryLock, cancelled: b.cancels && caller.roll(0, 140, 50) == 0}
	switch how {
	case burstRLock:
		call.lock = c.client.RWMutex("burst", random).RLocker()
	case burstAcquire:
		call.lock = simPermits{c.client.Semaphore("burst-permits", protocol.MaxPermits, random), 1}
	default:
		call.lock = c.client.Mutex(fmt.Sprintf("burst-%d", k), random)
	}
	return call
}

// work asks for the lock, and holds it for some milliseconds.
func (call *simBurstCall) work(b *simBurst) {
	c := call.caller
	r := c.client.run
	patience := b.most()
	if call.cancelled {
		patience = c.span(0, 141, 5*b.timeout)
	}
	c.random.await()
	ctx, cancel := context.WithTimeout(c.life, patience)
	defer cancel()
	began, get := r.now(), call.lock.Lock
	if call.tries {
		get = call.lock.TryLock
	}
	over := r.watchdog.does("%v's call in the burst", c)
	var lease *redlock.Lease
	lease, call.err = get(ctx)
	over()
	if call.took = r.now() - began; call.err != nil {
		r.history.note("%v does not get %s: %v", call, call.name(), call.err)
		return
	}
	r.history.note("%v has %s", call, call.name())
	time.Sleep(c.span(0, 142, 5*time.Millisecond))
	c.random.await()
	_ = lease.Unlock(context.Background())
}

func (call *simBurstCall) name() string { return testhook.Lock(lockOf(call.lock)).Name }

func (call *simBurstCall) String() string {
	return fmt.Sprintf("client %d's call %d of the burst", call.caller.client.index, call.caller.index-burstPlace)
}

// checkBurst checks that a burst ends in time where all nodes are well, but for one that is frozen: each call
// that waits gets its lock, each TryLock returns, hardly an attempt is in vain, and the client loses no lease
// meanwhile. It does not judge plans with slow messages: one is late by more than the node timeout, with all
// that the connection carries behind it.
func checkBurst(h *simHistory) (wrong []string) {
	b, burst := h.plan.burst, h.burst
	if burst == nil || h.plan.odds.slow > 0 {
		return nil
	}
	c := h.run.clients[b.client]
	for i := range h.plan.nodes {
		if i != b.frozen && h.run.wellness.ill(i, c.index).touch(burst.began, burst.ended) {
			return nil
		}
	}
	fail := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("the burst of %d calls of client %d: ", b.calls, b.client)+fmt.Sprintf(format, args...))
	}
	late, refused := burst.count(b)
	if late > 0 {
		fail("%d did not end in time: Lock within %v, TryLock within %v", late, b.most(), b.mostOfTry())
	}
	if refused == b.calls {
		fail("none got its lock")
	}
	// A TryLock whose turn does not come counts as an attempt in vain. The nodes need not have the time for all of
	// the attempts that the client begins with; of the others it may send some too many.
	most := burstFirst - burstShare/burstCommands + b.calls/20
	if vain := burst.vain - refused; vain > most && !b.severe {
		fail("%d attempts were in vain, of at most %d", vain, most)
	}
	for _, v := range h.visits {
		if v.caller.client == c && v.lease != nil && v.ended >= burst.began && v.ended <= burst.ended {
			for _, text := range groundless(h, v) {
				fail("%s", text)
			}
		}
	}
	return wrong
}

// count returns how many calls did not end in time, and how many TryLocks did not get their lock.
func (h *simBurstHistory) count(b *simBurst) (late, refused int) {
	for _, call := range h.calls {
		switch {
		case call.tries && call.took > b.mostOfTry(), call.err != nil && !call.tries && !call.cancelled:
			late++
		case call.tries && call.err != nil:
			refused++
		}
	}
	return late, refused
}
