package schedulers

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// What happens to servers.
const (
	serverStopped = "stopped"
	serverKilled  = "killed, until it voted"
)

// reconnects is how long clients may take to be connected again to a server that was stopped and went on.
const reconnects = 4*nodeTimeout + 600*time.Millisecond

// atOnce is how many processes, and how many servers, are struck at a time.
const atOnce = 2

// strike is a fault of a process. It begins just before the signal is sent, and ends when the process goes on, or the one in
// its place has started.
type strike struct {
	slot     int
	process  int // its id
	killed   bool
	from, to time.Time
}

// targets are the processes or servers that are not struck now.
type targets struct {
	mu   sync.Mutex
	free []int
}

func newTargets(n int) *targets {
	s := &targets{}
	for i := range n {
		s.free = append(s.free, i)
	}
	return s
}

// take takes one of them, that is preferred if it is free.
func (s *targets) take(preferred int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := rand.N(len(s.free))
	for i, target := range s.free {
		if target == preferred {
			at = i
		}
	}
	target := s.free[at]
	s.free = append(s.free[:at], s.free[at+1:]...)
	return target
}

func (s *targets) giveBack(target int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, target)
}

// strikeUntil makes faults of processes and servers until ctx ends, and returns when all are well again.
func (r *run) strikeUntil(ctx context.Context, t *testing.T) {
	processes, servers := newTargets(len(r.processes)), newTargets(len(r.nodes))
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for pause(ctx, 500*time.Millisecond+rand.N(2*time.Second)) {
				preferred := -1
				if rand.N(r.aimed()) == 0 {
					preferred = r.awaitGrant(ctx, t)
				}
				slot := processes.take(preferred)
				r.strikeProcess(t, slot, rand.N(2) == 0)
				processes.giveBack(slot)
			}
		})
		all.Go(func() {
			for pause(ctx, 300*time.Millisecond+rand.N(time.Second)) {
				server := servers.take(-1)
				r.strikeServer(t, r.nodes[server])
				servers.giveBack(server)
			}
		})
	}
	all.Wait()
}

// aimed is how many strikes there are for each that waits for a run, to hit the process that has it. A leader has all runs: if
// most strikes hit it, most ticks are missed, and show nothing.
func (r *run) aimed() int {
	if r.leads() {
		return 6
	}
	return 2
}

// pause reports whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitGrant waits for the next run, and returns the slot of the process that has it, within the time that
// the work may take; -1 if there is none.
func (r *run) awaitGrant(ctx context.Context, t *testing.T) int {
	began := time.Now()
	for pause(ctx, time.Millisecond) && time.Since(began) < 2*r.period {
		events, err := readHistory(r.path)
		assert.NoError(t, err)
		for _, e := range events[max(0, len(events)-10):] {
			if e.at.After(began) && (e.what == granted || e.what == ran) {
				pause(ctx, rand.N(maxWork/2))
				return e.slot
			}
		}
	}
	return -1
}

// strikeProcess kills a process, and starts another one in its place; or it stops the process for a while.
func (r *run) strikeProcess(t *testing.T, slot int, kill bool) {
	p := r.processes[slot]
	s := strike{slot: slot, process: p.cmd.Process.Pid, killed: kill, from: time.Now()}
	if s.killed {
		p.kill()
		r.processes[slot] = startProcess(t, r.settings(slot))
	} else {
		assert.NoError(t, cluster.FreezeProcess(p.cmd.Process))
		time.Sleep(200*time.Millisecond + rand.N(longest(5*time.Second)))
		assert.NoError(t, cluster.ThawProcess(p.cmd.Process))
	}
	s.to = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strikes = append(r.strikes, s)
}

// strikeServer kills a server, which loses its memory, and waits until it votes again; or stops it for a while, and waits until
// clients had time to connect again.
func (r *run) strikeServer(t *testing.T, n *cluster.Node) {
	r.mu.Lock()
	r.blows++
	r.mu.Unlock()
	began := time.Now()
	if !long.Tests() || rand.N(2) == 0 { // a server that lost its memory does not vote for a ttl
		n.Freeze(t)
		time.Sleep(200*time.Millisecond + rand.N(longest(4*time.Second)))
		n.Thaw(t)
		r.note(serverStopped, n, began)
		time.Sleep(reconnects)
		return
	}
	n.Kill(t)
	time.Sleep(rand.N(1500 * time.Millisecond))
	n.Start(t)
	if r.kind != redsyncKind {
		awaitAdmission(t, n)
	}
	r.note(serverKilled, n, began)
}

// note records a fault of a server that is over.
func (r *run) note(how string, n *cluster.Node, began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = append(r.servers, outage{n.Addr(), how, began, time.Now()})
}

// outage is a fault of a server: until it went on where it was stopped, and until it voted again where it was killed.
type outage struct {
	server, how string
	from, to    time.Time
}

// covers reports whether the server was struck at an instant.
func (o outage) covers(at time.Time) bool { return !at.Before(o.from) && !at.After(o.to) }

// longest is shorter where the whole test is.
func longest(d time.Duration) time.Duration {
	if !long.Tests() {
		return d / 4
	}
	return d
}

// awaitAdmission waits until the server votes again.
func awaitAdmission(t *testing.T, n *cluster.Node) {
	assert.True(t, cluster.Eventually(startTimeout, func() bool { return n.HasRecord(t) }), "a server that was killed does not vote again")
}
