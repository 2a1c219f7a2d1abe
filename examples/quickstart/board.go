package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/redlocktest"
)

// key is where the nodes keep the lock: the default prefix, then its name.
const key = "redlock:" + lockName

// board prints the story, and the lock's value at each node.
type board struct {
	out     io.Writer
	nodes   *redlocktest.Nodes
	stopped []int
	titles  int
}

func (b *board) title(format string, args ...any) {
	b.titles++
	fmt.Fprintf(b.out, "\n%d. %s\n", b.titles, fmt.Sprintf(format, args...))
}

func (b *board) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprint(b.out, "   ", strings.TrimSpace(line), "\n")
	}
}

func (b *board) stop(nodes ...int) {
	b.stopped = nodes
	for _, i := range nodes {
		b.nodes.Stop(i)
	}
}

// votesFor prints the holder at every node, as soon as that is owner everywhere, or none for
// "". Lock and Unlock return when a majority has answered; the other nodes follow a moment
// later, if at all.
func (b *board) votesFor(owner string) {
	deadline := time.Now().Add(10 * time.Second)
	for !b.unanimous(owner) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	for i, url := range b.nodes.URLs() {
		fmt.Fprintf(b.out, "     node %d  %s  %s\n", i, url, b.vote(i, owner))
	}
}

func (b *board) unanimous(owner string) bool {
	for i := range b.nodes.URLs() {
		if holder, _ := b.nodes.Get(i, key); holder != owner && !slices.Contains(b.stopped, i) {
			return false
		}
	}
	return true
}

func (b *board) vote(i int, owner string) string {
	holder, held := b.nodes.Get(i, key)
	switch {
	case slices.Contains(b.stopped, i):
		return "no answer"
	case !held:
		return "empty"
	case holder == owner:
		return "granted"
	default:
		return "held by " + holder
	}
}
