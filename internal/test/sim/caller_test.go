package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
)

// simCaller is one goroutine that uses a client.
type simCaller struct {
	client *simClient
	index  int
	random *simRandom
	life   context.Context // ends with the client's death, or before its Close
	giveUp context.CancelFunc
}

func (c *simClient) newCaller(k int) *simCaller {
	caller := &simCaller{client: c, index: k, random: c.random.caller(k)}
	caller.life, caller.giveUp = context.WithCancel(c.life)
	return caller
}

func (c *simCaller) String() string {
	if len(c.client.callers) == 1 && c.index == 0 {
		return fmt.Sprintf("client %d", c.client.index)
	}
	return fmt.Sprintf("client %d.%d", c.client.index, c.index)
}

// roll returns a random number below n, for one decision of the caller in a turn.
func (c *simCaller) roll(turn, what, n uint64) uint64 {
	return mix(c.client.run.plan.seed, 77, uint64(c.client.index), uint64(c.index), turn, what) % n
}

func (c *simCaller) span(turn, what uint64, most time.Duration) time.Duration {
	return time.Duration(c.roll(turn, what, uint64(most)))
}

// apart is a time that no other caller has. Calls that end at one instant leave their queues in any
// order, so what ends the calls of all callers ends each at an instant of its own.
func (c *simCaller) apart() time.Duration {
	return time.Duration(16*c.client.index+c.index) * time.Microsecond
}

// work takes locks until the time of trouble is over, and once more then.
func (c *simCaller) work() {
	r := c.client.run
	p := r.plan
	for turn := uint64(1); r.awake() < p.busy && !c.client.isOver(); turn++ {
		pause := p.ttl/4 + time.Millisecond
		if p.uses.eager {
			pause = 5 * time.Millisecond
		}
		time.Sleep(c.span(turn, 0, pause))
		c.turn(turn)
	}
	time.Sleep(p.busy + c.span(0, 0, time.Second) - r.awake())
	if c.client.isOver() {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, simPatience)
	defer cancel()
	for _, m := range c.lastMutexes() {
		v := r.history.call(c, m, true)
		lease, err := v.mutex.Lock(ctx)
		v.returned(lease, err)
		if err != nil {
			if !cannotAdmit(c.client) && !r.mayLackVotes(c.client) {
				r.history.fail("%v is not served when all trouble is over: %v", c, err)
			}
			continue
		}
		c.visit(v, c.span(0, 1, 5*time.Millisecond), simProlongs{})
		c.random.await()
		v.unlocks()
	}
	for k := range uint64(3) { // attempts that fail: nothing of them may stay
		if c.index > 0 {
			break
		}
		if lease, err := c.mutex(0, p.uses.readers && c.roll(k, 51, 2) == 0).TryLock(ctx); err == nil {
			time.Sleep(c.span(k, 17, 3*time.Millisecond))
			c.random.await()
			_ = lease.Unlock(ctx)
		}
		time.Sleep(c.span(k, 18, 5*time.Millisecond))
	}
}

// lastMutexes returns the locks that a caller takes when all trouble is over.
func (c *simCaller) lastMutexes() (all []simLock) {
	p := c.client.run.plan
	for lock := range p.locks {
		all = append(all, c.mutex(lock, p.uses.readers && c.roll(uint64(lock), 50, 2) == 0))
	}
	if p.uses.sets {
		all = append(all, c.multi(1<<p.locks-1))
	}
	if n := p.size(c.client.index); n > 0 {
		all = append(all, c.permits(1+c.roll(0, 57, n)))
	}
	if p.uses.slots {
		all = append(all, slotFor(c, 0, nil))
	}
	return all
}

// multi returns a lock of several locks, those whose bits are set in which.
func (c *simCaller) multi(which uint64, opts ...redlock.LockOption) *redlock.Mutex {
	var names []string
	for lock := range c.client.run.plan.locks {
		if which>>lock&1 == 1 {
			names = append(names, fmt.Sprintf("lock-%d", lock))
		}
	}
	return c.client.client.Multi(names, append(opts, withRandom(c.random))...)
}

// mutex returns a lock for a caller that asks for it alone, or reads.
func (c *simCaller) mutex(lock int, reads bool, opts ...redlock.LockOption) *redlock.Mutex {
	name := fmt.Sprintf("lock-%d", lock)
	opts = append(opts, withRandom(c.random))
	if reads {
		return c.client.client.RWMutex(name, opts...).RLocker()
	}
	return c.client.client.Mutex(name, opts...)
}

// mutexFor returns what a caller asks for in a turn: permits of the semaphore, a set of locks, or one
// lock, alone or as a reader. It draws this choice and its options.
func (c *simCaller) mutexFor(turn uint64) simLock {
	p := c.client.run.plan
	ttl := p.ttls[c.client.index]
	var opts []redlock.LockOption
	if u := p.uses.unfenced; u > 0 && c.roll(turn, 30, u) == 0 {
		opts = append(opts, redlock.WithoutFencing())
	}
	if p.uses.longer && c.roll(turn, 31, 6) == 0 {
		ttl = p.longerThan(ttl)
		opts = append(opts, redlock.WithTTL(ttl))
	}
	if p.uses.maxHolds && c.roll(turn, 32, 4) == 0 {
		opts = append(opts, redlock.WithMaxHold(ttl/2+c.span(turn, 33, 2*ttl)))
	}
	if p.uses.labels {
		label := []string{"", "worker 7", "a@b", "10.0.0.1:7\tü"}[c.roll(turn, 34, 4)]
		opts = append(opts, redlock.WithOwnerLabel(label))
	}
	if p.uses.observers && c.roll(turn, 140, 2) == 0 && !p.uses.slots && p.uses.permits == 0 {
		opts = append(opts, redlock.WithAnnounce())
	}
	if p.uses.wanted && c.roll(turn, 130, 2) == 0 {
		opts = append(opts, redlock.WithWanted())
	}
	if p.uses.slots && c.roll(turn, 120, 5) == 0 {
		return slotFor(c, turn, opts)
	}
	if p.uses.permits > 0 && c.roll(turn, 60, 3) == 0 {
		return permitsFor(c, turn, opts)
	}
	if p.uses.sets && c.roll(turn, 55, 5) < 2 {
		return c.multi(1+c.roll(turn, 56, 1<<p.locks-1), opts...)
	}
	reads := p.uses.readers && c.roll(turn, 50, 2) == 0
	if !reads {
		opts = slices.Concat(opts, minHoldFor(c, turn, ttl), delayFor(c, turn))
	}
	return c.mutex(int(c.roll(turn, 1, uint64(p.locks))), reads, opts...)
}

// turn is one call that may get a lock, and what follows.
func (c *simCaller) turn(turn uint64) {
	r := c.client.run
	p := r.plan
	m := c.mutexFor(turn)
	if p.uses.forces && r.awake() > p.calm && r.awake() < p.busy && c.roll(turn, 35, 25) == 0 {
		c.force(fmt.Sprintf("lock-%d", c.roll(turn, 1, uint64(p.locks))))
		return
	}
	if operates(c, turn) {
		return
	}
	var tail *simTailLoss
	if p.kind == simTails && c.index == 0 && r.awake() < p.busy && c.roll(turn, 5, 2) == 0 {
		tail = c.newTailLoss(turn)
		defer tail.over()
	}
	how := c.roll(turn, 2, 8)
	v := r.history.call(c, m, how > 1)
	if how <= 1 {
		lease, err := m.TryLock(c.life)
		if v.returned(lease, err); err == nil {
			c.holding(v, turn, tail)
			c.unlock(v, turn)
		}
		return
	}
	patience := p.busy + simPatience + c.apart() - r.awake()
	if c.roll(turn, 3, 4) == 0 {
		patience = c.span(turn, 4, 2*p.ttl)
	}
	ctx, quit := context.WithTimeout(c.life, patience)
	defer quit()
	over := r.waits(v, quit)
	if how == 2 {
		c.do(ctx, v, turn, tail, over)
		return
	}
	lease, err := m.Lock(ctx)
	over()
	if v.returned(lease, err); err == nil {
		c.holding(v, turn, tail)
		c.unlock(v, turn)
	}
}

// do is a turn with Do.
func (c *simCaller) do(ctx context.Context, v *simVisit, turn uint64, tail *simTailLoss, over func()) {
	ran := false
	err := v.mutex.Do(ctx, func(inner context.Context, lease *redlock.Lease) error {
		ran = true
		over()
		v.works = true
		v.returned(lease, nil)
		c.holding(v, turn, tail)
		if v.lost && inner.Err() == nil {
			time.Sleep(time.Second) // a client that was suspended notices it within a second
		}
		if v.lost && inner.Err() == nil {
			v.history.fail("%v's Do has lost its lease, token %d, and its context goes on", c, v.token)
		}
		if !transfers(c, v, turn) {
			renewsLate(c, v, turn)
			c.handsOff(v, turn)
		}
		c.random.await()
		return nil
	})
	switch over(); {
	case !ran && err == nil:
		v.history.fail("%v's Do returned nil without a call of its function", c)
	case !ran:
		v.returned(nil, err)
	default:
		if v.handed != nil && err != nil {
			v.history.fail("%v's Do, which transferred token %d, returned %v", c, v.token, err)
		}
		v.left(err)
	}
}

// unlock ends a turn.
func (c *simCaller) unlock(v *simVisit, turn uint64) {
	if !c.client.isDead() && !transfers(c, v, turn) {
		renewsLate(c, v, turn)
		c.handsOff(v, turn)
		c.random.await()
		v.unlocks()
	}
}

// holding is what a holder does in the time of trouble.
func (c *simCaller) holding(v *simVisit, turn uint64, tail *simTailLoss) {
	r := c.client.run
	p := r.plan
	if p.kind == simVerdicts && p.renewal && c.index == 0 && r.awake() < p.busy && c.roll(turn, 5, 3) == 0 {
		c.edge(v, turn)
	}
	if tail != nil {
		tail.strike()
		v.tried = true
	}
	if p.kind == simFlaps && c.index == 0 && c.roll(turn, 5, 2) == 0 && r.awake() < p.busy {
		c.flap(turn)
		v.tried = true
	}
	if p.kind == simRestarts && v.terms().Lease.TTL > p.longest() && c.roll(turn, 5, 2) == 0 && r.awake() < p.busy {
		c.majorityForgets(turn)
		v.tried = true
	}
	hold := c.span(turn, 6, p.briefly())
	if v.tried {
		hold = 2 * v.terms().Lease.TTL
	}
	if c.roll(turn, 7, 3) == 0 && len(c.client.callers) < 8 && !p.uses.eager {
		hold = c.span(turn, 8, 2*v.terms().Lease.TTL)
	}
	var at simProlongs
	if c.roll(turn, 36, 5) == 0 {
		at.extend = 1 + c.roll(turn, 37, 4)
	}
	if p.uses.readers && !v.reads && !v.isSet() && permitsOf(v) == 0 && !endsLate(v) && c.roll(turn, 52, 10) < 3 {
		at.downgrade, at.stays = 1+c.roll(turn, 53, 2), c.span(turn, 54, p.briefly())
	}
	if p.uses.lengths && c.roll(turn, 57, 2) == 0 {
		ttl := v.terms().Lease.TTL
		at.length, at.lengthens = ttl/2+c.span(turn, 58, p.longerThan(ttl)-ttl/2), 1+c.roll(turn, 59, 3)
	}
	c.visit(v, min(hold, max(p.busy-r.awake(), 0)+20*time.Millisecond), at)
}

// simProlongs is at which of its checks a holder calls Extend, Downgrade and ExtendTo; 0: it does not.
type simProlongs struct {
	extend, downgrade, lengthens uint64
	stays                        time.Duration // after the downgrade, at least
	length                       time.Duration // for which it calls ExtendTo; after that it tries the end of the lease
}

// visit plays a holder: now and then it checks that its lease is valid, and writes with
// its token; at one check or another it prolongs its lease.
func (c *simCaller) visit(v *simVisit, hold time.Duration, at simProlongs) {
	defer c.client.has(v)()
	r := c.client.run
	until := r.awake() + hold
	for k := uint64(1); ; k++ {
		if c.client.isDead() {
			break
		}
		if !v.look() && !v.goesOn() {
			time.Sleep(c.span(k, 16, r.plan.ttl/10))
			v.lookAgain()
			break
		}
		left := until - r.awake()
		if left <= 0 && k > at.downgrade || letsGo(v, k) {
			break
		}
		switch k {
		case at.downgrade:
			v.downgrades()
			until = max(until, r.awake()+at.stays)
			continue
		case at.extend:
			_ = v.prolong("extend", v.lease.Extend)
			continue
		case at.lengthens:
			_ = v.prolong("lengthen", func(ctx context.Context) error { return v.lease.ExtendTo(ctx, at.length) })
			until = max(until, min(r.awake()+at.length, r.plan.busy))
			continue
		}
		time.Sleep(min(left, c.span(k, 9, r.plan.ttl/8)+1))
	}
	v.leaves()
}

// prolong calls a method that prolongs the lease, and returns its error.
func (v *simVisit) prolong(name string, method func(context.Context) error) error {
	h := v.history
	v.caller.random.await()
	ended := !v.lease.Valid()
	v.prolongs.Store(true)
	over := h.run.watchdog.does("%v's %s of token %d", v.caller, name, v.token)
	err := method(v.caller.life)
	over()
	v.prolongs.Store(false)
	h.note("%v %ss token %d: %v", v.caller, name, v.token, err)
	switch {
	case err == nil && ended:
		h.fail("%v's lease, token %d, had ended and is valid again, by %s", v.caller, v.token, name)
	case errors.Is(err, redlock.ErrLost) && v.lease.Valid():
		h.fail("%v's lease, token %d, was lost by %s and is valid again", v.caller, v.token, name)
	}
	return err
}

// force calls ForceUnlock.
func (c *simCaller) force(lock string) {
	h := &c.client.run.history
	c.random.await()
	f := h.forces(c, lock)
	over := c.client.run.watchdog.does("%v's ForceUnlock of %s", c, lock)
	s, err := c.client.client.ForceUnlock(c.life, lock)
	over()
	f.returned(s, err)
}
