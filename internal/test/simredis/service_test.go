package simredis

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowly is a server whose commands take ten milliseconds each, over a network that takes one, and what it
// executed when.
type slowly struct {
	server *Server
	link   *Link
	log    []string // protected by the world's lock
}

func (s *slowly) executed() []string {
	s.server.world.mu.Lock()
	defer s.server.world.mu.Unlock()
	return s.log
}

func newSlowly(t *testing.T) *slowly {
	s := &slowly{}
	began := time.Now()
	world := NewWorld(func(_ time.Duration, _ int, _ string, args []string, _ any) {
		if args[0] == "SET" {
			s.log = append(s.log, fmt.Sprintf("%s %v", args[1], time.Since(began).Round(time.Millisecond)))
		}
	})
	s.server = world.Server(0, func(now time.Duration) time.Duration { return now })
	s.server.Slow(10 * time.Millisecond)
	s.link = s.server.Link("test", func(_ time.Duration, toServer bool, n int) Fate {
		if !toServer || n == 0 {
			return Fate{}
		}
		return Fate{Delay: time.Millisecond}
	})
	return s
}

// sends makes a connection and sends commands over it, in one write.
func (s *slowly) sends(t *testing.T, keys ...string) *Conn {
	c, err := s.link.GetContext(context.Background())
	require.NoError(t, err)
	for _, key := range keys {
		require.NoError(t, c.Send("SET", key, ""))
	}
	require.NoError(t, c.Flush())
	return c.(*Conn)
}

// A server that is slow executes one command at a time, those of all connections in the order of their
// arrival, and answers then.
func TestSlowServerExecutesInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowly(t)
		first := s.sends(t, "a", "b", "c")
		time.Sleep(5 * time.Millisecond)
		second := s.sends(t, "d")
		began := time.Now()
		_, err := second.Receive()
		require.NoError(t, err)
		require.Equal(t, 36*time.Millisecond, time.Since(began).Round(time.Millisecond))
		require.Equal(t, []string{"a 11ms", "b 21ms", "c 31ms", "d 41ms"}, s.executed())
		s.server.Slow(0)
		require.Equal(t, "OK", ask(t, first, "SET", "e", ""))
		require.NoError(t, first.Close())
		require.NoError(t, second.Close())
	})
}

// What has arrived at a slow server is executed after a pause if the server freezes, or its client closes the
// connection; it is lost with the server, and with a connection that is killed.
func TestWhatHasArrivedAtASlowServerMeetsItsFaults(t *testing.T) {
	for name, fault := range map[string]struct {
		do   func(s *slowly, c *Conn)
		want []string
	}{
		"frozen": {func(s *slowly, _ *Conn) {
			s.server.Freeze(true)
			time.Sleep(time.Second)
			s.server.Freeze(false)
		}, []string{"a 11ms", "b 1.025s", "c 1.035s"}},
		"closed":  {func(_ *slowly, c *Conn) { _ = c.Close() }, []string{"a 11ms", "b 21ms", "c 31ms"}},
		"crashed": {func(s *slowly, _ *Conn) { s.server.Crash(false) }, []string{"a 11ms"}},
		"killed": {func(s *slowly, c *Conn) {
			s.server.world.mu.Lock()
			defer s.server.world.mu.Unlock()
			s.server.client(nil, []string{"KILL", "ID", fmt.Sprint(c.stream.id)})
		}, []string{"a 11ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlowly(t)
				c := s.sends(t, "a", "b", "c")
				time.Sleep(15 * time.Millisecond)
				fault.do(s, c)
				time.Sleep(time.Second)
				require.Equal(t, fault.want, s.executed())
				_ = c.Close()
			})
		})
	}
}
