package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Nothing at the nodes says how many permits a semaphore has. Each caller that waits says it, and all
// should say the same.

// doctor looks for queues of semaphores among so many keys of a node, about, so that it ends soon.
const (
	keysOfAScan = 1000
	mostScans   = 100
)

// findLimits reads the numbers of permits that waiters of semaphores with this prefix give. A user
// that may not call SCAN finds none.
func (f *nodeFacts) findLimits(a *asker, prefix string) error {
	f.limits = make(map[string]map[int]bool)
	queues := protocol.Key("slots", prefix)
	cursor := "0"
	for range mostScans {
		var keys []string
		reply, err := redis.Values(a.do("SCAN", cursor, "MATCH", protocol.MatchKeys(queues, "*"), "COUNT", keysOfAScan))
		if err == nil {
			_, err = redis.Scan(reply, &cursor, &keys)
		}
		if err != nil {
			return connectionOnly(err)
		}
		for _, key := range keys {
			tickets, err := redis.Strings(a.do("ZRANGE", key, 0, 99))
			if broken(err) {
				return err
			}
			f.addLimits(strings.TrimPrefix(key, queues), tickets)
		}
		if cursor == "0" {
			break
		}
	}
	return nil
}

func (f *nodeFacts) addLimits(name string, tickets []string) {
	for _, ticket := range tickets {
		limit := protocol.LimitOf(ticket)
		if limit == 0 {
			continue
		}
		if f.limits[name] == nil {
			f.limits[name] = make(map[int]bool)
		}
		f.limits[name][limit] = true
	}
}

// judgeLimits reports semaphores whose callers give different numbers of permits.
func (x *examination) judgeLimits() {
	all := make(map[string]map[int]bool)
	for _, f := range x.Nodes {
		for name, limits := range f.limits {
			if all[name] == nil {
				all[name] = make(map[int]bool)
			}
			maps.Copy(all[name], limits)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if what := overview.DifferentLimits(slices.Sorted(maps.Keys(all[name]))); what != "" {
			x.add(warning, "limits", "",
				fmt.Sprintf("callers of the semaphore %s give %s", printable.Quote(name), what),
				"as many permits as the greatest number may be held: more than the callers of the "+
					"smaller numbers expect",
				"give all callers the same number; while a new one is rolled out, nothing: it passes when the old "+
					"callers have ended")
		}
	}
}
