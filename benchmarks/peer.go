package main

import (
	"context"
	"fmt"
	"runtime/debug"
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

// A contender is a peer that may be opened. A new one is added by an adapter file
// that names it in contenders.
type contender struct {
	name   string
	about  string // its settings, for the report
	single bool   // locks at the first server alone
	open   func(site) (peer, error)
	waits  func(site) (peer, error) // opens a peer whose lock waits for a holder; nil if open's does
}

func (c contender) String() string { return c.name }

// contenders are all that can be measured, in the order of the report. The build
// tag redislock adds one whose module not every proxy serves.
var contenders = []contender{
	redlockDefault, redlockUnfenced,
	redsyncOnRedigo, redsyncOnRedigoFast, redsyncOnGoRedis, redsyncOnGoRedisFast,
	redsyncOnRueidis, redsyncOnRueidisFast,
	rueidislockOne, floor,
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
