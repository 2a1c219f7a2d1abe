package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A peer is one way to lock names over the nodes. To the workloads all peers
// are alike; what a peer adds to the library behind it is nothing but calls.
type peer interface {
	// lock waits for the lock of that name until ctx ends.
	lock(ctx context.Context, name string) (held, error)
	close() error
}

// held is a lock that was granted.
type held interface {
	Unlock(ctx context.Context) error
}

// A contender is a peer that may be opened. A new one is added by writing an
// adapter file and naming it in contenders.
type contender struct {
	name  string
	about string // its settings, told in the report
	open  func(addrs []string) (peer, error)
}

// contenders are all that can be measured, in the order of the report.
var contenders = []contender{redlockDefault, redlockUnfenced, redsyncDefault, redsyncFailFast, floorLoop}

// choose finds the contenders of a list of names, parted by commas.
func choose(names string) ([]contender, error) {
	var chosen []contender
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no peer %q: choose from %s", name, allNames())
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
