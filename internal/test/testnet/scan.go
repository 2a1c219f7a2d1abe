package testnet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
)

// preHook runs before each command. It calls hook, and then does what needs the embedded server, which
// must not be called under n.Mu: it answers SCAN and SCRIPT, and provides a script before its EVALSHA.
// It gets the embedded server as an argument because n.Redis.Server would race with n.Redis.Close.
func (n *Node) preHook(to *server.Server, c *server.Peer, cmd string, args []string) bool {
	if cmd == executed {
		n.Set(func(n *Node) { n.remove(args[0]) })
		return true
	}
	if n.scripts.IsOwn(c) {
		return false
	}
	if n.hook(c, cmd, args...) {
		return true
	}
	if cmd == "SCAN" {
		n.scan(c, args)
		return true
	}
	return n.scripts.Hook(to, c, cmd, args)
}

// scan answers SCAN page by page, as servers do: the embedded server returns all keys at once.
// Each node has an order of its own; a key keeps its place when others come and go. Twice
// makes it return each key on two pages. args are cursor, MATCH, pattern, COUNT, count, TYPE, type.
func (n *Node) scan(c *server.Peer, args []string) {
	after, _ := strconv.ParseUint(args[0], 10, 64)
	count, _ := strconv.Atoi(args[4])
	type place struct {
		cursor uint64
		key    string
	}
	var page []place
	for _, key := range n.Redis.Keys() {
		copies := []string{key}
		if n.Twice {
			copies = append(copies, key+" again")
		}
		for _, text := range copies {
			h := fnv.New32a()
			fmt.Fprintf(h, "%s at %d", text, n.Index)
			if p := (place{uint64(h.Sum32()) + 1, key}); p.cursor > after {
				page = append(page, p)
			}
		}
	}
	slices.SortFunc(page, func(a, b place) int { return cmp.Or(cmp.Compare(a.cursor, b.cursor), cmp.Compare(a.key, b.key)) })
	next := "0"
	if len(page) > count {
		page = page[:count]
		next = strconv.FormatUint(page[count-1].cursor, 10)
	}
	matched := n.matching(args[2])
	page = slices.DeleteFunc(page, func(p place) bool {
		return !slices.Contains(matched, p.key) || n.Redis.Type(p.key) != args[6]
	})
	c.WriteLen(2)
	c.WriteBulk(next)
	c.WriteLen(len(page))
	for _, p := range page {
		c.WriteBulk(p.key)
	}
}

// matching returns the keys that match a pattern, as the embedded server understands it.
func (n *Node) matching(pattern string) []string {
	near, err := n.dial()
	if err != nil {
		return nil
	}
	conn := redis.NewConn(near, 0, 0)
	defer conn.Close()
	keys, _ := redis.Strings(conn.Do("KEYS", pattern))
	return keys
}
