package redlock

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/notify"
)

// crowd is how many open clients of the same masters are a mistake: a client for each request has a dozen goroutines
// and a connection to each master, and takes those with it when it is dropped without Close.
const crowd = 20

// openClients counts the clients of this process.
var openClients = census{masters: make(map[string]*tally)}

// census counts open clients by their masters. It has no clients: one that is dropped can be collected.
type census struct {
	mu      sync.Mutex // protects what follows
	masters map[string]*tally
}

// tally is about one list of masters.
type tally struct {
	open   int
	logged bool
}

// add counts a client until remove, and logs that there is a crowd.
func (c *census) add(pools []Pool, events *notify.Queue) (remove func()) {
	key := mastersOf(pools)
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.masters[key]
	if of == nil {
		of = new(tally)
		c.masters[key] = of
	}
	of.open++
	if of.open >= crowd && !of.logged {
		of.logged = true
		events.Log(slog.LevelWarn, "this process has many open clients of the same masters; use one for all calls", "clients", of.open)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if of.open--; of.open == 0 {
			delete(c.masters, key)
		}
	}
}

// mastersOf names the masters of pools: those that this package makes by their addresses, others by where they are.
func mastersOf(pools []Pool) string {
	var names strings.Builder
	for _, p := range pools {
		if own, is := p.(*dialPool); is && own.name != "" {
			fmt.Fprintf(&names, "%s/%d ", own.name, own.connector.Database)
			continue
		}
		fmt.Fprintf(&names, "%T %p ", p, p)
	}
	return names.String()
}
