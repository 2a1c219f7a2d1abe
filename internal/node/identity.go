package node

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// identity is what a handshake learns about the server.
type identity struct {
	runID    string // names one run of the server process; "" if the server does not name it
	client   int64  // this connection's id there; 0 if the server does not name it
	role     string
	cluster  bool   // it runs in cluster mode
	sentinel bool   // it is no server of data, but a sentinel
	evicts   string // maxmemory_policy
	major    int    // of redis_version; 0 if the server does not report it
}

// read parses the answer to INFO.
func (id *identity) read(info string) {
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch key {
		case "run_id":
			id.runID = value
		case "redis_version":
			major, _, _ := strings.Cut(value, ".")
			id.major, _ = strconv.Atoi(major)
		case "role":
			id.role = value
		case "cluster_enabled":
			id.cluster = id.cluster || value == "1"
		case "redis_mode", "server_mode": // the second is Valkey's word
			id.cluster = id.cluster || value == "cluster"
			id.sentinel = id.sentinel || value == "sentinel"
		case "maxmemory_policy":
			id.evicts = value
		}
	}
}

// refuse returns an error if INFO shows that the server may not vote.
func (h handshake) refuse(id identity) (err error) {
	n := h.node
	switch {
	case id.sentinel:
		err = n.Status.Unfit("it is a sentinel, which has no locks: give the pool the address of a master")
	case id.role == "slave" || id.role == "replica":
		err = n.Status.Unfit("it is a replica; only masters vote: give the pool the master's address")
	case id.role != "master" && id.role != "": // a server that does not report its role counts as a master
		err = n.Status.Unfit(fmt.Sprintf("its role is %q; only masters vote: give the pool the address of a server "+
			"whose role is master", known(id.role, knownRoles)))
	case id.cluster:
		err = n.Status.Unfit("it runs in cluster mode, in which a script cannot use all keys of a lock; " +
			"give the pool the address of a server with cluster-enabled no")
	}
	if err != nil {
		n.cfg.Identities.register(n, "")
	}
	return err
}

// judge returns an error if another node leads to the server, and logs hazards. noInfo is the
// server's answer if it refuses INFO, else nil.
func (h handshake) judge(id identity, noInfo error) error {
	n := h.node
	if other, ok := n.cfg.Identities.register(n, id.runID); !ok {
		return n.Status.SameServer(other.Index)
	}
	n.Status.logProblems(hazards(id, noInfo)...)
	return nil
}

// SameServer is why a node does not vote whose server another one leads to.
func (s *Status) SameServer(other int) error {
	return s.Unfit(fmt.Sprintf("it is the same server as node %d; every pool must lead to a server of its own", other))
}

// mayEvict reports whether the server evicts keys under memory pressure.
func (id *identity) mayEvict() bool { return id.evicts != "" && id.evicts != "noeviction" }

// MayEvict reports whether a server evicts keys under memory pressure, by its answer to INFO.
func MayEvict(info string) bool {
	var id identity
	id.read(info)
	return id.mayEvict()
}

// hazards returns descriptions of the dangers for locks at a node that votes all the same.
// noInfo is the server's answer if it refuses INFO, else nil.
func hazards(id identity, noInfo error) (all []string) {
	if noInfo != nil {
		return []string{fmt.Sprintf("the server does not answer INFO, so a replica, a server given twice, or a "+
			"restart with old data goes unnoticed: %v", noInfo)}
	}
	if id.runID == "" {
		all = append(all, "the server's INFO has no run_id, so a server given twice, or a restart with old data, "+
			"goes unnoticed: use a server that names its run")
	}
	if id.mayEvict() {
		all = append(all, fmt.Sprintf("the server may evict locks under memory pressure: set maxmemory-policy "+
			"noeviction, not %s", known(id.evicts, knownPolicies)))
	}
	return all
}

// Words of servers that messages repeat. Others can be anything.
var (
	knownRoles    = strings.Fields("active-replica sentinel primary leader follower")
	knownPolicies = strings.Fields("allkeys-lru allkeys-lfu allkeys-lrm allkeys-random volatile-lru volatile-lfu " +
		"volatile-lrm volatile-random volatile-ttl")
)

// known returns a server's word for a message.
func known(word string, words []string) string {
	if slices.Contains(words, word) {
		return word
	}
	return "a word that is not known"
}

// Identities records which server each node leads to, so that one server behind two nodes
// has one vote. The nodes of a client share it.
type Identities struct {
	mu    sync.Mutex       // protects nodes, and Node.left
	nodes map[string]*Node // by run id
}

// NewIdentities makes an empty one.
func NewIdentities() *Identities { return &Identities{nodes: make(map[string]*Node)} }

// register records that a node leads to a server, in place of the one before. ok is false
// if another node leads to it too. An unknown server ("") cannot be compared.
func (r *Identities) register(n *Node, runID string) (other *Node, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(n)
	if runID == "" || n.left {
		return nil, true
	}
	if other, taken := r.nodes[runID]; taken {
		return other, false
	}
	r.nodes[runID] = n
	return nil, true
}

// leave has a node register no server any more.
func (r *Identities) leave(n *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.left = true
	r.forget(n)
}

// forget drops the server to which a node led. Called under r.mu.
func (r *Identities) forget(n *Node) {
	maps.DeleteFunc(r.nodes, func(_ string, its *Node) bool { return its == n })
}
