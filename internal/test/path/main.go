// Command path counts the functions that each of a few calls runs, in the root package and in internal, without
// internal/test.
// Both clients are in one process, so of a hand-off both sides count. Build it with
//
//	go build -cover -covermode=atomic -coverpkg=./... ./internal/test/path
//
// and give it a folder for the counters. It prints one line for each call: how many functions, and its name. With the
// variable PATH_PRINTS set, it prints the functions.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	nodes = 5
	ttl   = 6 * time.Second

	// settles is for how long a call is counted: late answers, and what they cause, belong to it.
	settles = 200 * time.Millisecond

	// tries is how often each call is counted. A function counts if it ran each time: others belong to probes in the
	// background. Five tries were too few: now and then a function of those ran in each of them.
	tries = 12
)

// call is one that is counted.
type call struct {
	name  string
	first func(*clients) // what happens before, uncounted
	does  func(*clients)
	after func(*clients)
}

var calls = []call{
	{"a free Lock", nil, (*clients).lock, (*clients).unlock},
	{"Unlock", (*clients).lock, (*clients).unlock, nil},
	{"a refused TryLock", (*clients).lock, (*clients).isRefused, (*clients).unlock},
	{"a hand-off", (*clients).lockAndWait, (*clients).unlock, (*clients).serve},
	{"a scheduled renewal", (*clients).lockAndHold, (*clients).awaitRenewal, (*clients).unlock},
}

// clients are two processes that ask for one lock.
type clients struct {
	holder, other *redlock.Mutex
	lease         *redlock.Lease
	served        chan *redlock.Lease
}

func (c *clients) lock() {
	lease, err := c.holder.Lock(context.Background())
	check(err)
	c.lease = lease
}

func (c *clients) unlock() { check(c.lease.Unlock(context.Background())) }

func (c *clients) isRefused() {
	if _, err := c.other.TryLock(context.Background()); !errors.Is(err, redlock.ErrHeld) {
		log.Fatal("not refused: ", err)
	}
}

// lockAndWait has the other client wait for the lock.
func (c *clients) lockAndWait() {
	c.lock()
	c.served = make(chan *redlock.Lease)
	go func() {
		lease, err := c.other.Lock(context.Background())
		check(err)
		c.served <- lease
	}()
}

func (c *clients) serve() { check((<-c.served).Unlock(context.Background())) }

// lockAndHold holds the lock until its renewal is near.
func (c *clients) lockAndHold() {
	c.lock()
	time.Sleep(ttl/3 - 4*settles)
}

func (c *clients) awaitRenewal() { time.Sleep(4 * settles) }

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: path FOLDER")
	}
	n, err := redlocktest.New(nodes)
	check(err)
	defer n.Close()
	open := func() *redlock.Mutex {
		client, err := redlock.Open(n.URLs(), redlock.WithTTL(ttl), redlock.WithNodeTimeout(2*time.Second), redlock.WithLogger(nil))
		check(err)
		return client.Mutex("path")
	}
	c := &clients{holder: open(), other: open()}
	for range 3 { // connections, subscriptions and scripts are made, and memory is used again
		for _, call := range calls {
			call.run(c, "")
		}
	}
	for i, call := range calls {
		ran := map[string]int{} // how often, by function
		for try := range tries {
			folder := filepath.Join(os.Args[1], fmt.Sprint(i, "-", try))
			check(os.Mkdir(folder, 0o755))
			call.run(c, folder)
			for _, function := range functions(folder) {
				ran[function]++
			}
		}
		maps.DeleteFunc(ran, func(_ string, times int) bool { return times < tries })
		fmt.Println(len(ran), call.name)
		if os.Getenv("PATH_PRINTS") != "" {
			fmt.Println("    " + strings.Join(slices.Sorted(maps.Keys(ran)), "\n    "))
		}
	}
}

// run makes the call, and writes its counters to a folder, if there is one.
func (k call) run(c *clients, folder string) {
	if k.first != nil {
		k.first(c)
		time.Sleep(settles)
	}
	check(coverage.ClearCounters())
	k.does(c)
	time.Sleep(settles)
	if folder != "" {
		check(coverage.WriteMetaDir(folder))
		check(coverage.WriteCountersDir(folder))
	}
	if k.after != nil {
		k.after(c)
		time.Sleep(settles)
	}
}

// functions returns the functions that ran, by the counters in a folder.
func functions(folder string) (ran []string) {
	out, err := exec.Command("go", "tool", "covdata", "func", "-i", folder).Output()
	check(err)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && strings.Contains(fields[0], ".go:") && fields[2] != "0.0%" && isCounted(fields[0]) {
			ran = append(ran, fields[0]+" "+fields[1])
		}
	}
	return ran
}

// isCounted reports whether a place in a file is in the root package, or in internal.
func isCounted(place string) bool {
	place = strings.TrimPrefix(place, "github.com/redlock-go/redlock/")
	return !strings.Contains(place, "/") || strings.HasPrefix(place, "internal/") && !strings.HasPrefix(place, "internal/test/")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
