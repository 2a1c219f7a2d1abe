package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// A peer is one way to lock names. All peers have the same interface; a peer adds nothing but
// calls to the library behind it.
type peer interface {
	// lock waits for the lock of that name until ctx ends.
	lock(ctx context.Context, name string) (held, error)
	close() error
}

// held is a lock that was granted.
type held interface {
	Unlock(ctx context.Context) error
}

// extender is a lock that can be renewed by a call; not all can.
type extender interface {
	Extend(ctx context.Context) error
}

// site is where the Redis servers are, as a peer is to see them.
type site struct {
	addrs []string
}

// database is the end of a redis:// URL. The servers are shared by clusters of 1
// to 9 nodes, and a server's record of its cluster says how many there are: so
// each number of nodes has a database of its own.
func (s site) database() string { return fmt.Sprintf("/%d", len(s.addrs)) }

// kind is what a peer is compared as.
type kind int

const (
	quorum  kind = iota // locks at a majority of the Redis servers
	single              // locks at the first Redis server alone
	bare                // no lock logic: a lower bound for every library
	foreign             // has servers of its own, which are not Redis
)

// A contender is a peer that may be opened. A new one is added by an adapter file
// that names it in contenders.
type contender struct {
	name  string
	about string // its settings, for the report
	kind  kind
	open  func(site) (peer, error)
	// waits opens a peer whose lock waits for a holder; nil if open's does.
	waits func(site) (peer, error)
	// start starts a foreign peer's servers, and is called once; its error is
	// errNotHere where the machine has none. Else nil.
	start func() (stop func(), err error)
	alone bool // serves one goroutine only
}

// contenders are all that can be measured, in the order of the report. The build
// tag full adds those that are heavy to build, and redislock one whose module is
// not to be had everywhere.
var contenders = []contender{
	redlockDefault, redlockUnfenced,
	redsyncOnRedigo, redsyncOnRedigoFast, redsyncOnGoRedis, redsyncOnGoRedisFast, redsyncOnRueidis, redsyncOnRueidisFast,
	rueidislockOne,
	floorPipelined, floorUnfenced, floorBare,
}

// choose finds the contenders of a list of names, parted by commas; all for "".
func choose(names string) ([]contender, error) {
	if names == "" {
		return contenders, nil
	}
	var chosen []contender
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-peers: there is no %q: choose from %s", name, allNames())
		}
		chosen = append(chosen, contenders[i])
	}
	return chosen, nil
}

// allNames are the names of all contenders, parted by commas.
func allNames() string {
	names := make([]string, len(contenders))
	for i, c := range contenders {
		names[i] = c.name
	}
	return strings.Join(names, ",")
}

// versionOf is the version of a module that this program was built with, as
// " v1.2.3"; "" in tests, which are built without.
func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module && m.Version != "" {
			return " " + m.Version
		}
	}
	return ""
}
