package simredis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Commands that several clients send at one instant, replies, and turns all happen at
// instants of their own, in an order that does not depend on which goroutine posts first.
func TestEachEventHasAnInstantOfItsOwn(t *testing.T) {
	var first []string
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			events := runFourClients(t)
			instants := make(map[string]bool)
			for _, e := range events {
				var at string
				_, err := fmt.Sscan(e, &at)
				require.NoError(t, err)
				require.False(t, instants[at], "two at one instant: %q", events)
				instants[at] = true
			}
			if first == nil {
				first = events
			}
			require.Equal(t, first, events)
		})
	}
}

// runFourClients lets four clients act at the same instants, and returns the events with
// their instants.
func runFourClients(t *testing.T) (events []string) {
	var mu sync.Mutex // protects events
	record := func(at time.Duration, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprintf("%d ", at)+fmt.Sprintf(format, args...))
	}
	world := NewWorld(func(at time.Duration, server int, client string, args []string, _ any) {
		if args[0] == "PING" {
			record(at, "server %d for %s", server, client)
		}
	})
	fate := func(time.Duration, bool, int) Fate { return Fate{Delay: time.Millisecond} }
	var conns []*Conn
	for s := range 2 {
		server := world.Server(s, func(now time.Duration) time.Duration { return now })
		for c := range 4 {
			conn, err := server.Link(fmt.Sprint("client ", c), fate).GetContext(context.Background())
			require.NoError(t, err)
			conns = append(conns, conn.(*Conn))
		}
	}
	start := make(chan struct{})
	var all sync.WaitGroup
	for _, i := range rand.Perm(len(conns)) {
		all.Go(func() {
			<-start
			ask(t, conns[i], "PING")
			record(world.Now(), "reply %d", i)
		})
		all.Go(func() {
			<-start
			world.Turn(fmt.Sprint("turn ", i))
			record(world.Now(), "turn %d", i)
		})
	}
	synctest.Wait()
	close(start)
	all.Wait()
	require.Len(t, events, 3*len(conns))
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	return events
}

// A timer that fires at the instant of a delivery comes first, with everything that it
// causes, whichever of the two was set first.
func TestAnEventHappensAfterTheTimersOfItsInstant(t *testing.T) {
	const delay = time.Millisecond
	for k := range 40 {
		synctest.Test(t, func(t *testing.T) {
			order := make(chan string, 2)
			world := NewWorld(func(at time.Duration, _ int, _ string, args []string, _ any) {
				order <- fmt.Sprint(args[0], " at ", at)
			})
			server := world.Server(0, func(now time.Duration) time.Duration { return now })
			conn, err := server.Link("client", func(time.Duration, bool, int) Fate { return Fate{Delay: delay} }).GetContext(t.Context())
			require.NoError(t, err)
			<-order // the dialling
			setTimer := func() {
				woken := make(chan bool)
				go func() {
					<-woken
					order <- fmt.Sprint("timer at ", world.Now())
				}()
				time.AfterFunc(delay, func() { close(woken) })
			}
			if k%2 == 0 {
				setTimer()
			}
			require.NoError(t, conn.Send("PING"))
			require.NoError(t, conn.Flush())
			if k%2 == 1 {
				setTimer()
			}
			require.Equal(t, "timer at 3ms", <-order)
			require.Equal(t, "PING at 3ms", <-order)
			require.NoError(t, conn.Close())
		})
	}
}
