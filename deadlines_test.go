package redlock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// timeless is a socket without deadlines: setting one has this result and no effect.
type timeless struct {
	net.Conn
	result error
}

func (s timeless) SetDeadline(time.Time) error      { return s.result }
func (s timeless) SetReadDeadline(time.Time) error  { return s.result }
func (s timeless) SetWriteDeadline(time.Time) error { return s.result }

// silentOnce dials timeless sockets to a node. At the server's end of one of them nothing happens, or all that
// comes is read and nothing answered.
type silentOnce struct {
	node   *testnet.Node
	result error        // of setting a deadline
	silent int64        // this connection, from 1 on
	reads  bool         // the end of that connection
	dials  atomic.Int64 // so far
}

func (s *silentOnce) dial(ctx context.Context) (net.Conn, error) {
	if s.dials.Add(1) != s.silent {
		socket, err := s.node.DialContext(ctx)
		return timeless{socket, s.result}, err
	}
	near, far := net.Pipe()
	if s.reads {
		go func() { _, _ = io.Copy(io.Discard, far) }() // ends with the connection
	}
	return timeless{near, s.result}, nil
}

// GetContext returns another library's connection.
func (s *silentOnce) GetContext(ctx context.Context) (redis.Conn, error) {
	socket, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	return redis.NewConn(socket, 0, 0), nil
}

// x/crypto/ssh returns an error from SetDeadline; some wrappers do nothing there.
func TestSilentConnectionsWithoutDeadlinesEnd(t *testing.T) {
	ours := func(cfg redlock.DialConfig) func(*silentOnce) redlock.Pool {
		return func(s *silentOnce) redlock.Pool { return redlock.DialPool(s.dial, cfg) }
	}
	theirs := func(s *silentOnce) redlock.Pool { return s }
	for name, c := range map[string]struct {
		silent int64
		reads  bool
		pool   func(*silentOnce) redlock.Pool
	}{
		"none":                                  {0, true, ours(redlock.DialConfig{})},
		"login":                                 {1, true, ours(redlock.DialConfig{ClientName: "web"})},
		"login, nothing is read":                {1, false, ours(redlock.DialConfig{ClientName: "web"})},
		"handshake":                             {1, true, ours(redlock.DialConfig{})},
		"handshake, nothing is read":            {1, false, ours(redlock.DialConfig{})},
		"subscription":                          {2, true, ours(redlock.DialConfig{})},
		"subscription, nothing is read":         {2, false, ours(redlock.DialConfig{})},
		"redigo: none":                          {0, true, theirs},
		"redigo: handshake":                     {1, true, theirs},
		"redigo: handshake, nothing is read":    {1, false, theirs},
		"redigo: subscription":                  {2, true, theirs},
		"redigo: subscription, nothing is read": {2, false, theirs},
	} {
		for kind, result := range map[string]error{"does nothing": nil, "fails": errors.New("no deadlines")} {
			if result != nil && strings.HasPrefix(name, "redigo") {
				continue // redigo's connections end there
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					var sockets []*silentOnce
					var pools []redlock.Pool
					for _, n := range net.Nodes {
						sockets = append(sockets, &silentOnce{node: n, result: result, silent: c.silent, reads: c.reads})
						pools = append(pools, c.pool(sockets[len(sockets)-1]))
					}
					client, err := redlock.New(pools, redlock.WithLogger(nil), redlock.WithRestartGuard(0), testnet.WithClock(net.Clock.Now))
					require.NoError(t, err)
					net.Add(client)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					require.NoError(t, client.WaitReady(ctx))
					lease := net.Must(client.Mutex("x").Lock(ctx))
					waiting := make(chan error)
					go func() {
						next, err := client.Mutex("x").Lock(ctx) // it listens for wake-ups
						if err == nil {
							err = next.Unlock(ctx)
						}
						waiting <- err
					}()
					time.Sleep(5 * time.Second)
					if c.silent == 2 {
						time.Sleep(45 * time.Second)
					}
					for i, s := range sockets {
						made := s.dials.Load() // redigo's connection cannot be read after a write that failed: the handshake asks why over another one
						require.GreaterOrEqual(t, made, max(c.silent+1, 2), "node %d", i)
						require.LessOrEqual(t, made, max(c.silent+2, 2), "node %d", i)
					}
					require.NoError(t, lease.Unlock(ctx))
					require.NoError(t, <-waiting)
				})
			})
		}
	}
}
