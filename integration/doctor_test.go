package integration

import (
	"cmp"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// diagnosis is the output of doctor --json, as far as the tests need it.
type diagnosis struct {
	code  int
	Nodes []struct {
		Server struct{ Program, Version, Row, Support string }
	}
	Findings []struct{ Severity, Code, Node, What string }
}

// doctorTimes are a guard of three seconds, and the longest node timeout that a ttl as long allows.
var doctorTimes = []string{"--ttl", "3s", "--node-timeout", "1400ms"}

// doctor examines nodes with these times.
func doctor(t *testing.T, urls []string, args ...string) diagnosis {
	t.Helper()
	args = slices.Concat([]string{"doctor", "--json", "--for", "200ms", "--timeout", "15s"}, doctorTimes, args)
	code, out, log := callTool(t, urls, args...)
	d := diagnosis{code: code}
	require.NoError(t, json.Unmarshal([]byte(out), &d), "%s%s", out, log)
	return d
}

// nodesWith returns the nodes with a finding, by its severity and code.
func (d diagnosis) nodesWith(severity, code string) []string {
	nodes := []string{}
	for _, f := range d.Findings {
		if f.Severity == severity && f.Code == code {
			nodes = append(nodes, f.Node)
		}
	}
	return nodes
}

// named returns the name that the tool gives to a node.
func named(t *testing.T, index string, raw string) []string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return []string{"node " + index + " (" + u.Host + ")"}
}

// Every fault is planted at node 1 of three real servers; doctor finds it there, and
// only there.
func TestDoctorFindsEachPlantedFault(t *testing.T) {
	for _, c := range []struct {
		name, severity, code string
		exit                 int
		short                bool
		plant                func(t *testing.T, nodes cluster.Nodes, urls []string)
	}{
		{"a server given twice", "danger", "duplicate", 1, true, func(_ *testing.T, nodes cluster.Nodes, urls []string) {
			urls[1] = "redis://" + nodes[0].ProxyAddr()
		}},
		{"a replica", "danger", "replica", 1, true, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].FollowOther(t, nodes[0])
		}},
		{"a wrong password", "danger", "password", 1, false, func(t *testing.T, nodes cluster.Nodes, urls []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "resetpass", ">right")
			urls[1] = "redis://:wrong@" + nodes[1].Addr()
		}},
		{"no password", "danger", "password", 1, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "resetpass", ">right")
		}},
		{"no right to close old connections", "warning", "no-kill", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "-client", "+client|id") // Redis 6.2 does not know -client|kill
		}},
		{"no right to set keys", "danger", "no-rights", 1, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "-set")
		}},
		{"no right to the keys of readers", "danger", "no-rights", 1, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", append([]any{"SETUSER", "default", "resetkeys"}, allButReaders...)...)
		}},
		{"no right that readers need", "warning", "no-readers", 0, true, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "-zscore")
		}},
		{"no right to the keys of sets", "warning", "no-sets", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "resetkeys", "~redlock:[^:]*", "~redlock::[^w]*", "~redlock::watched:*")
		}},
		{"no right to the keys of semaphores", "warning", "no-permits", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "resetkeys", "~redlock:[^:]*", "~redlock::[^s]*", "~redlock::se*")
		}},
		{"no right to the keys of WithWanted", "warning", "no-wanted", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "resetkeys", "~redlock:[^:]*", "~redlock::[^a]*", "~redlock::alive:*")
		}},
		{"no right to the channels of wake-ups", "note", "no-wake-ups", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "resetchannels")
		}},
		{"no right to list locks", "note", "no-lists", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Do(t, "ACL", "SETUSER", "default", "-scan")
		}},
		{"cluster mode", "danger", "cluster-mode", 1, false, func(t *testing.T, _ cluster.Nodes, urls []string) {
			urls[1] = cluster.Kind{}.UseInClusterMode(t, 1).URLs()[0]
		}},
		{"eviction", "danger", "eviction", 1, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].SetConfig(t, "maxmemory-policy", "allkeys-lru")
		}},
		{"a server that is down", "danger", "unreachable", 1, true, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Kill(t)
		}},
		{"a frozen server", "danger", "unreachable", 1, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			nodes[1].Freeze(t)
		}},
		{"a young server", "warning", "young", 0, false, func(t *testing.T, nodes cluster.Nodes, _ []string) {
			letVote(t, nodes)
			time.Sleep(4 * time.Second) // the others are older
			nodes[1].Restart(t)
		}},
		{"a slow server", "warning", "slow", 0, false, func(_ *testing.T, nodes cluster.Nodes, urls []string) {
			urls[1] = "redis://" + nodes[1].ProxyAddr()
			nodes[1].Delay(120 * time.Millisecond)
		}},
		{"a server that is too slow to vote", "danger", "slow", 1, false, func(_ *testing.T, nodes cluster.Nodes, urls []string) {
			urls[1] = "redis://" + nodes[1].ProxyAddr()
			nodes[1].Delay(600 * time.Millisecond)
		}},
		{"a clock that is ahead", "warning", "clock-offset", 0, false, func(t *testing.T, nodes cluster.Nodes, urls []string) {
			urls[1] = "redis://" + fakeTime(t, nodes[1].Addr(), func(time.Duration) time.Duration { return 5 * time.Second })
		}},
		{"a clock that is behind", "warning", "clock-offset", 0, false, func(t *testing.T, nodes cluster.Nodes, urls []string) {
			urls[1] = "redis://" + fakeTime(t, nodes[1].Addr(), func(time.Duration) time.Duration { return -time.Hour })
		}},
		{"a clock that is too fast", "danger", "clock-rate", 1, false, func(t *testing.T, nodes cluster.Nodes, urls []string) {
			urls[1] = "redis://" + fakeTime(t, nodes[1].Addr(), func(passed time.Duration) time.Duration { return passed / 4 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !c.short {
				notInShort(t)
			}
			nodes := cluster.Use(t, 3)
			urls := nodes.URLs()
			c.plant(t, nodes, urls)
			d := doctor(t, urls, "--node-timeout", "1s")
			assert.Equal(t, c.exit, d.code, "%+v", d.Findings)
			assert.Subset(t, named(t, "1", urls[1]), d.nodesWith(c.severity, c.code))
			assert.Len(t, d.nodesWith(c.severity, c.code), 1, "%+v", d.Findings)
		})
	}
}

// The programs of the nodes are those that INFO names.
func TestDoctorNamesTheServerProgramAndItsRow(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	for i, n := range doctor(t, nodes.URLs()).Nodes {
		version, err := nodes[i].Version()
		require.NoError(t, err)
		assert.Equal(t, version, strings.ToLower(n.Server.Program)+" "+n.Server.Version)
		assert.NotEmpty(t, n.Server.Row)
		assert.Contains(t, []string{"tested", "read"}, n.Server.Support)
	}
	inClusterMode := cluster.Kind{}.UseInClusterMode(t, 1)
	assert.Equal(t, "Cluster mode", doctor(t, inClusterMode.URLs()).Nodes[0].Server.Row)
}

// Each right of docs/reference/rights.md is taken away in turn. doctor names it, says which locks lack it, and
// leaves no key behind.
func TestDoctorNamesEachMissingRight(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 1)
	assert.Empty(t, rightsFound(t, nodes), "no right is missing")
	codes := map[string]string{"+info": "no-info", "+client|id": "no-kill", "+client|kill": "no-kill",
		"+publish": "no-wake-ups", "+subscribe": "no-wake-ups", "+pubsub|numsub": "no-wake-ups", "+scan": "no-lists"}
	for _, right := range rightsForReaders(t) {
		codes[right] = "no-readers"
	}
	for _, right := range slices.Concat(rightsInGroups(t)...) {
		found := rightsFound(t, nodes, right)
		want := cmp.Or(codes[right], "no-rights")
		require.Len(t, found, 1, right)
		what, named := found[want]
		require.True(t, named, "%s: %v", right, found)
		if strings.HasPrefix(want, "no-r") {
			assert.Regexp(t, regexp.QuoteMeta(right)+"$", what)
		}
		assert.Equal(t, want == "no-readers", strings.HasPrefix(what, "locks for readers do not work there; mutexes do"), what)
	}
	assert.Empty(t, nodes[0].Keys(t))
}

// rightsFound returns what doctor finds about rights where the user lacks some, by the code of the
// finding.
func rightsFound(t *testing.T, nodes cluster.Nodes, without ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, f := range doctor(t, restrict(t, nodes, without...), "--for", "0s", "--restart-guard", "0").Findings {
		if slices.Contains([]string{"unreachable", "no-info", "no-kill", "no-rights", "no-readers", "no-sets", "no-permits", "no-wanted", "no-wake-ups", "no-lists"}, f.Code) {
			all[f.Code] = f.What
		}
	}
	return all
}

func TestDoctorNamesNodesWithoutPersistence(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	assert.Len(t, doctor(t, nodes.URLs()).nodesWith("warning", "persistence"), 1, "all are without")
	nodes[0].SetConfig(t, "appendonly", "yes")
	nodes[1].SetConfig(t, "save", "3600 1")
	assert.Len(t, doctor(t, nodes.URLs()).nodesWith("note", "persistence"), 1, "a majority has one")
	nodes[2].SetConfig(t, "save", "3600 1")
	d := doctor(t, nodes.URLs())
	assert.Empty(t, d.nodesWith("note", "persistence"))
	assert.Empty(t, d.nodesWith("warning", "persistence"))
}

// letVote uses the cluster until all of its nodes vote.
func letVote(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	require.True(t, eventually(2*soon, func() bool {
		code, _, log := callTool(t, nodes.URLs(), slices.Concat([]string{"run", "job"}, doctorTimes, []string{"--", "true"})...)
		require.Zero(t, code, log)
		d := doctor(t, nodes.URLs())
		return len(d.nodesWith("note", "no-quorum-yet"))+len(d.nodesWith("warning", "no-quorum-yet"))+
			len(d.nodesWith("warning", "not-admitted"))+len(d.nodesWith("danger", "other-list")) == 0
	}))
}

func TestDoctorNamesNodesThatMayNotVote(t *testing.T) {
	t.Parallel()
	notInShort(t)
	all := cluster.Use(t, 4)
	nodes := all[:3]
	d := doctor(t, nodes.URLs())
	assert.Zero(t, d.code)
	assert.Len(t, d.nodesWith("note", "no-quorum-yet"), 1, "no client has used them")

	letVote(t, nodes)
	early := append(nodes[:2].URLs(), all[3:].URLs()...)
	assert.Equal(t, named(t, "2", early[2]), doctor(t, early).nodesWith("danger", "other-list"), "the list in force has another one")

	nodes[1].Do(t, "FLUSHALL")
	assert.Equal(t, named(t, "1", nodes.URLs()[1]), doctor(t, nodes.URLs()).nodesWith("warning", "not-admitted"), "wiped")
	five := append(nodes.URLs(), "redis://127.0.0.1:1", "redis://127.0.0.1:2")
	assert.Len(t, doctor(t, five).nodesWith("danger", "other-list"), 2, "the records are of three nodes, and five are given")

	letVote(t, nodes)
	nodes[2].Do(t, "DEL", nodes[2].Do(t, "GET", "redlock::newest"))
	assert.Contains(t, doctor(t, nodes.URLs()).nodesWith("warning", "not-admitted"), named(t, "2", nodes.URLs()[2])[0], "its record was deleted, not the key of its quarantine")
}
