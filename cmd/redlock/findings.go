package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// severity is a finding's severity. doctor exits with 1 if there is a danger.
type severity string

const (
	danger  severity = "danger"
	warning severity = "warning"
	note    severity = "note"
)

// finding is a problem with its consequence and its remedy. The JSON names and the codes
// are stable.
type finding struct {
	Severity    severity `json:"severity"`
	Code        string   `json:"code"`
	Node        string   `json:"node,omitempty"` // empty: all nodes
	What        string   `json:"what"`
	Consequence string   `json:"consequence"`
	Remedy      string   `json:"remedy"`
}

// limits are the thresholds of doctor.
type limits struct {
	guard       time.Duration // how long a node does not vote after it lost its memory; 0: admission is off
	nodeTimeout time.Duration
	slow        time.Duration
	offset      time.Duration
	driftPPM    float64
}

// examination is the result of doctor.
type examination struct {
	Nodes    []*nodeFacts `json:"nodes"`
	Quorum   int          `json:"quorum"`
	Findings []finding    `json:"findings"`

	limits limits
	last   *lastLook  // nil: none is known
	shows  *nodeFacts // a node that stands in the list of masters in force; nil: none votes
}

func (x *examination) add(s severity, code, node, what, consequence, remedy string) {
	x.Findings = append(x.Findings, finding{s, code, node, what, consequence, remedy})
}

// judge makes findings of the facts.
func (x *examination) judge() {
	for _, f := range x.Nodes {
		x.limits.guard = x.guardWith(f)
	}
	x.findDamage()
	x.findStrangers()
	for _, f := range x.Nodes {
		if f.err != nil {
			x.judgeSilence(f)
			continue
		}
		x.judgeServer(f)
		x.judgeUnknown(f)
		x.judgeRefusal(f)
		x.judgeRights(f)
		x.judgeCertificates(f, time.Now())
		x.judgeMemory(f)
		x.judgeAdmission(f)
		x.judgeSpeed(f)
	}
	x.judgePrograms()
	x.judgeTwins()
	x.judgeClocks()
	x.judgeSteps(x.last, time.Now())
	x.judgePersistence()
	x.judgeLimits()
	x.judgeList()
	rank := map[severity]int{danger: 0, warning: 1, note: 2}
	slices.SortStableFunc(x.Findings, func(a, b finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
}

// guardWith returns the guard, which is at least the longest ttl on the node's record.
func (x *examination) guardWith(f *nodeFacts) time.Duration {
	if x.limits.guard == 0 {
		return 0
	}
	return max(x.limits.guard, time.Duration(f.Admitted.TTL*float64(time.Second)))
}

func (x *examination) dangers() int {
	n := 0
	for _, f := range x.Findings {
		if f.Severity == danger {
			n++
		}
	}
	return n
}

// judgeServer reports servers that are no independent masters.
func (x *examination) judgeServer(f *nodeFacts) {
	if f.infoErr != nil {
		x.add(warning, "no-info", f.Node, "it does not answer INFO: "+f.infoErr.Error(),
			"a replica, a server given twice, or a restart with old data goes unnoticed",
			grant(f.infoErr, "grant the user +info, to all clients alike (docs/reference/rights.md)"))
		return
	}
	if f.RunID == "" {
		x.add(warning, "no-run-id", f.Node, "its INFO has no run_id",
			"a server given twice goes unnoticed, and after a restart with old data it votes at once: two "+
				"may hold one lock",
			"use a server that names its run, or run it without persistence")
	}
	switch f.Role {
	case "master", "":
	case "slave", "replica":
		x.add(danger, "replica", f.Node, "it is a replica of "+f.info["master_host"]+":"+f.info["master_port"],
			"it never votes; were it promoted in its master's place, it could forget locks that the master granted",
			"give a master that replicates nothing: REPLICAOF NO ONE, or another server")
	default:
		x.add(danger, "role", f.Node, fmt.Sprintf("its role is %q, not master", f.Role),
			"it never votes", "give a server whose role is master, and that replicates nothing")
	}
	if inClusterMode(f.info) {
		x.add(danger, "cluster-mode", f.Node, "it runs in cluster mode",
			"a failover forgets locks, and scripts that touch keys of several slots fail",
			"use servers with cluster-enabled no")
	}
	if n, _ := strconv.Atoi(f.info["connected_slaves"]); n > 0 {
		x.add(warning, "has-replicas", f.Node, fmt.Sprintf("%d replicas follow it", n),
			"if anything ever promotes one in its place, locks that had not arrived there can be held twice",
			"let nothing (Sentinel, an operator, a managed service) promote them; better, have none")
	}
}

// judgeMemory reports the server's settings for short memory and failing disks.
func (x *examination) judgeMemory(f *nodeFacts) {
	if f.Eviction != "" && f.Eviction != "noeviction" {
		x.add(danger, "eviction", f.Node, "its maxmemory-policy is "+f.Eviction,
			"when memory is short it drops locks that are held: two may hold one lock",
			"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
	}
	used, _ := strconv.ParseFloat(f.info["used_memory"], 64)
	limit, _ := strconv.ParseFloat(f.info["maxmemory"], 64)
	if limit > 0 && used > 0.9*limit && !node.IsCode(f.refusal, "OOM") {
		x.add(warning, "memory", f.Node, fmt.Sprintf("%.0f %% of its maxmemory is used", used/limit*100),
			"when it is full it refuses to vote (OOM)", "raise maxmemory, or give the locks a server of their own")
	}
	if f.info["rdb_last_bgsave_status"] == "err" && f.RDB != "off" && !node.IsCode(f.refusal, "MISCONF") {
		x.add(danger, "save-fails", f.Node, "its last background save failed",
			"with stop-writes-on-bgsave-error, the default, it refuses to vote (MISCONF)", overview.SeeToTheDisk)
	}
}

// judgeAdmission reports a node that may not vote.
func (x *examination) judgeAdmission(f *nodeFacts) {
	adm := f.Admitted
	if x.limits.guard == 0 || f.infoErr != nil {
		return
	}
	if adm.State == "votes" && adm.Nodes != len(x.Nodes) {
		x.add(danger, "other-list", f.Node,
			fmt.Sprintf("its record is of %d nodes, and %d are given here", adm.Nodes, len(x.Nodes)),
			"it does not vote for clients with this list; clients with different lists count different majorities",
			"give every client the same, whole list; how to change it: docs/protocol.md, Changes")
	}
	switch adm.State {
	case "damaged":
		x.judgeDamage(f)
	case "other list":
		x.judgeStranger(f)
	}
	switch {
	case adm.State == "unknown" && strings.Contains(adm.Error, "WRONGTYPE"):
		x.add(danger, "foreign-keys", f.Node,
			"another program has a key of another type under redlock::, the prefix of this library's own: "+adm.Error,
			"it does not vote",
			"delete those keys of another type that are redlock::record:* or redlock::quarantine:*, and find the program")
	case adm.State == "unknown":
		x.add(warning, "admission-unknown", f.Node, "whether it may vote cannot be read: "+adm.Error,
			"if the user lacks rights, it never votes", "grant the user the commands in docs/reference/rights.md")
	}
	up := time.Duration(f.Uptime * float64(time.Second))
	state := map[string]string{
		"new":   "the wait begins when a client connects",
		"waits": fmt.Sprintf("it waits for another %.0f s", math.Ceil(adm.Left)),
		"votes": "it votes already", "unknown": "whether it votes cannot be read", "damaged": "its record is damaged",
		"other list": "it belongs to another list",
	}[adm.State]
	if adm.State == "waits" && adm.Left == 0 {
		state = "its wait is over, and the next client lets it vote"
	}
	consequence := "until then the cluster tolerates one failure less; where a majority waits, locks wait with it"
	remedy := overview.WaitForIt
	switch {
	case f.info["uptime_in_seconds"] != "" && up < x.limits.guard:
		x.add(warning, "young", f.Node,
			fmt.Sprintf("it was started %v ago, less than the guard of %v for which a new or restarted node "+
				"does not vote; %s", up, x.limits.guard, state),
			consequence, remedy)
	case adm.State == "new" || adm.State == "waits":
		x.add(warning, "not-admitted", f.Node,
			"it does not vote yet, since it has no record of this run (it is new, was restarted, or was wiped); "+state,
			consequence, remedy)
	}
}

// findDamage finds the records with a count that no clock explains, as clients do: by the latest of the nodes' clocks.
func (x *examination) findDamage() {
	var latest time.Duration
	for _, f := range x.Nodes {
		for _, r := range f.readings {
			latest = max(latest, r.server)
		}
	}
	for _, f := range x.Nodes {
		if f.Admitted.State == "votes" && !f.record.IsExplained(protocol.GreatestCount(latest)) {
			f.Admitted.State = "damaged"
		}
	}
}

// judgeDamage reports a damaged record.
func (x *examination) judgeDamage(f *nodeFacts) {
	whole := 0
	for _, other := range x.Nodes {
		if other.Admitted.State == "votes" {
			whole++
		}
	}
	what := "its record is damaged: it has a count that no clock explains"
	if whole >= x.Quorum {
		x.add(warning, "damaged", f.Node, what,
			"the first client that reads the count deletes the record; the node votes again after a quarantine, with "+
				"the counters of the others",
			"nothing, but find out what wrote it: another program, or failing memory")
		return
	}
	x.add(danger, "damaged", f.Node, what+", and no quorum of other nodes can replace it",
		"it does not vote: if this makes a majority impossible, no lock is granted",
		"delete its key redlock::record:* when the others vote, or at all nodes that say this: tokens then begin "+
			"anew from the clocks. Find out what wrote it: another program, or failing memory")
}

// judgeSpeed reports a slow round trip.
func (x *examination) judgeSpeed(f *nodeFacts) {
	median := millisec(f.Trip.Median)
	what := fmt.Sprintf("its round trip is %s (median; worst %s)", printable.Duration(median),
		printable.Duration(millisec(f.Trip.Max)))
	switch {
	case median >= x.limits.nodeTimeout:
		x.add(danger, "slow", f.Node, what+fmt.Sprintf(", and the node timeout %v", x.limits.nodeTimeout),
			"its votes always come too late: it counts as failed",
			overview.FindDelay+"; or raise the node timeout and the ttl")
	case median >= x.limits.slow:
		x.add(warning, "slow", f.Node, what+fmt.Sprintf(", above %v", x.limits.slow),
			fmt.Sprintf("its votes miss the verdict, and are lost when it reaches the node timeout of %v; it is "+
				"as good as absent", x.limits.nodeTimeout),
			overview.FindDelay)
	}
}

// certificateNotice is how long before its end a certificate is reported.
const certificateNotice = 14 * 24 * time.Hour

// judgeCertificates reports certificates that end soon. Those that have ended are why the node does not answer.
func (x *examination) judgeCertificates(f *nodeFacts, now time.Time) {
	end := func(at time.Time) string {
		return fmt.Sprintf("ends in %s, at %s", counted(int(at.Sub(now).Hours()/24), "day"),
			at.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if at := f.expiry.Server; !at.IsZero() && at.Sub(now) < certificateNotice {
		x.add(warning, "certificate", f.Node, "its certificate, or one of its issuers', "+end(at),
			"from then on no client can connect to it", "renew it there: CONFIG SET tls-cert-file reads the file again")
	}
	if at := f.expiry.Client; !at.IsZero() && at.Sub(now) < certificateNotice {
		x.add(warning, "own-certificate", f.Node, "this client's certificate "+end(at),
			"from then on the server refuses this client", "renew the file: it is read at each connection")
	}
}
