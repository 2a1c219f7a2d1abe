package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// support is what docs/servers.md says of a server program.
type support string

const (
	tested      support = "tested" // the project's tests pass on it
	read        support = "read"   // it should work by its documentation
	unsupported support = "no"     // it does not work, or not safely
	notKnown    support = "unknown"
)

// text returns it in words.
func (s support) text() string {
	return map[support]string{tested: "tested", read: "not tested, should work by its documentation",
		unsupported: "does not work"}[s]
}

// serverFacts name a node's server program. The JSON names are stable.
type serverFacts struct {
	Program string  `json:"program"` // "" if INFO does not show it
	Version string  `json:"version"` // the program's own
	Row     string  `json:"row"`     // the first cell of its row in docs/servers.md; "" if there is none
	Support support `json:"support"`
}

// programs are those that INFO shows by a field of their own, whose value is their version. All of them
// also report a version of Redis, with which they are compatible.
var programs = []struct{ field, name string }{
	{"valkey_version", "Valkey"},
	{"dragonfly_version", "Dragonfly"},
	{"garnet_version", "Garnet"},
	{"kvrocks_version", "Kvrocks"},
	{"upstash_version", "Upstash"},
}

// serverOf returns what the fields of INFO show of the server program.
func serverOf(info map[string]string) serverFacts {
	s := serverFacts{Program: "Redis", Version: info["redis_version"], Support: notKnown}
	if s.Version == "" {
		s.Program = ""
	}
	for _, p := range programs {
		if version := info[p.field]; version != "" {
			s.Program, s.Version = p.name, version
		}
	}
	if _, its := info["mvcc_depth"]; its {
		s.Program = "KeyDB"
	}
	for _, service := range []string{"ElastiCache", "MemoryDB"} {
		if strings.HasPrefix(info["os"], "Amazon "+service) {
			s.Program = service
		}
	}
	s.Row, s.Support = s.place(inClusterMode(info))
	return s
}

// clusterModeRow is the row of all servers in cluster mode, whatever their program.
const clusterModeRow = "Cluster mode"

// inClusterMode reports whether INFO shows cluster mode. Valkey's word for redis_mode is server_mode.
func inClusterMode(info map[string]string) bool {
	return info["cluster_enabled"] == "1" || info["redis_mode"] == "cluster" || info["server_mode"] == "cluster"
}

// place returns the program's row in docs/servers.md, and what that says.
func (s serverFacts) place(clusterMode bool) (row string, is support) {
	if clusterMode {
		return clusterModeRow, unsupported
	}
	release := s.release()
	switch s.Program {
	case "":
		return "", notKnown
	case "Redis":
		switch {
		case release == [2]int{6, 2}, release == [2]int{7, 0}:
			return fmt.Sprintf("Redis %d.%d", release[0], release[1]), tested
		case slices.Compare(release[:], []int{6, 2}) < 0:
			return "Redis before 6.2", unsupported
		}
		return "Redis 7.2 and later", read
	case "Valkey":
		if release == [2]int{8, 0} {
			return "Valkey 8.0", tested
		}
		return "Valkey, other versions", read
	case "ElastiCache":
		return "ElastiCache, cluster mode disabled", read
	case "KeyDB":
		return s.Program, read
	}
	return s.Program, unsupported
}

// release returns the first two numbers of the version.
func (s serverFacts) release() (numbers [2]int) {
	for i, part := range strings.SplitN(s.Version, ".", 3) {
		if i < len(numbers) {
			numbers[i], _ = strconv.Atoi(part)
		}
	}
	return numbers
}

// String names the program and its version.
func (s serverFacts) String() string {
	return orUnknown(strings.TrimSpace(s.Program + " " + s.Version))
}

// servers returns the server programs of the nodes, sorted by name and version, and the names of the nodes of each. It
// leaves out nodes whose program is not known.
func (x *examination) servers() (all []serverFacts, nodes map[serverFacts][]string) {
	nodes = make(map[serverFacts][]string)
	for _, f := range x.Nodes {
		if f.err != nil || f.infoErr != nil || f.Server.Program == "" {
			continue
		}
		if nodes[f.Server] == nil {
			all = append(all, f.Server)
		}
		nodes[f.Server] = append(nodes[f.Server], f.Node)
	}
	slices.SortStableFunc(all, func(a, b serverFacts) int { return cmp.Compare(a.String(), b.String()) })
	return all, nodes
}

// judgePrograms reports server programs on which this library is not tested. Cluster mode has a finding
// of its own.
func (x *examination) judgePrograms() {
	all, nodes := x.servers()
	for _, s := range all {
		code := "server"
		if s.Program == "Redis" || s.Program == "Valkey" {
			code = "version"
		}
		what := fmt.Sprintf("%s at %s", s, strings.Join(nodes[s], ", "))
		switch {
		case s.Support == read:
			x.add(note, code, "", what+": the project's tests have not run on it",
				"none is known: it should work by its documentation",
				fmt.Sprintf("see %q in docs/servers.md; where you can start the program, REDLOCK_TEST_SERVERS=PATH "+
					"make servers tests it", s.Row))
		case s.Support == unsupported && s.Row != clusterModeRow:
			x.add(warning, code, "", what+": docs/servers.md says that it does not work",
				"locks may be refused, or be held twice after a restart or a failover",
				fmt.Sprintf("see %q in docs/servers.md", s.Row))
		}
	}
}
