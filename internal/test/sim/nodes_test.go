package sim

import (
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/simredis"
)

// Faults of the nodes. Each records from when on the node is not well, and until when.

func (r *simRun) freeze(node int, frozen bool) {
	r.wellness.set(node, everybody, "frozen", frozen)
	r.servers[node].Freeze(frozen)
}

// refuse makes a node answer with errors from now on; "" ends that.
func (r *simRun) refuse(node int, how simredis.Refusal) {
	r.wellness.set(node, everybody, "refusing", how != "")
	r.servers[node].Refuse(how)
}

// crash ends the run of a node's server. It does not vote before it is admitted again,
// whatever it comes back with.
func (r *simRun) crash(node int, silent bool) {
	r.wellness.set(node, everybody, "down", true)
	r.wellness.set(node, everybody, notAdmitted, true)
	r.admissions.loses(r.now(), node, false, r.plan.nodes-r.plan.quorum())
	r.wellness.set(node, everybody, "frozen", false)
	r.wellness.set(node, everybody, "refusing", false)
	r.servers[node].Crash(silent)
	forgetRests(&r.history, node)
}

// start begins the next run with what is on the node's disk.
func (r *simRun) start(node int) {
	r.wellness.set(node, everybody, "down", false)
	r.servers[node].Start(r.disk(node))
}

// wipe is FLUSHALL. Without tokens a client that is connected does not notice it, which
// docs/safety.md excludes: then the server is started anew, with nothing.
func (r *simRun) wipe(node int) {
	r.wellness.set(node, everybody, notAdmitted, true)
	if r.plan.uses.unfenced > 0 {
		r.crash(node, false)
		r.write(node, nil)
		r.start(node)
		return
	}
	r.admissions.loses(r.now(), node, true, r.plan.nodes-r.plan.quorum())
	r.servers[node].Wipe()
}

// wipeAllButQuarantine deletes all keys of a node but those of its quarantine, as a person or
// an eviction may.
func (r *simRun) wipeAllButQuarantine(node int) {
	if r.plan.uses.unfenced > 0 {
		r.wipe(node)
		return
	}
	r.wellness.set(node, everybody, notAdmitted, true)
	r.admissions.loses(r.now(), node, true, r.plan.nodes-r.plan.quorum())
	for _, k := range r.servers[node].Keys() {
		if !strings.HasPrefix(k.Name, protocol.Key("quarantine", "")) && !strings.HasPrefix(k.Name, protocol.Key("guard", "")) {
			r.servers[node].Drop(k.Name)
		}
	}
}

// executed is called for each command that a server executes: an admission shows that
// the node is well again. Renewals, rests and transfers are recorded.
func (r *simRun) executed(at time.Duration, node int, client string, args []string, reply any) {
	if len(args) > 1 && args[1] == protocol.Admit.Text() && reply == int64(1) {
		r.wellness.set(node, everybody, notAdmitted, false)
	}
	r.admissions.executed(at, node, args, reply)
	r.beginnings.executed(at, node, client, args, reply)
	noteRest(r, node, args, reply)
	noteRenewal(r, at, node, args, reply)
	noteTransferAt(&r.history, args)
	noteScript(&r.history, node, args, reply)
}

// suspend stops all clients and servers for a while.
func (r *simRun) suspend(d time.Duration) {
	r.wellness.suffers(r.all(), everybody, d+simNotices)
	r.slept.Add(int64(d))
	r.world.Suspend(d)
}
