package lock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

var (
	randomName = regexp.MustCompile(`[0-9A-Z]{26}`)
	ticketTime = regexp.MustCompile(`\d{16}-[0-9A-Z]{16}`)
)

// anonymous replaces what is random, or an instant: names by the order in which they occur.
func anonymous(lines []string) string {
	known := make(map[string]string)
	text := randomName.ReplaceAllStringFunc(strings.Join(lines, "\n")+"\n", func(name string) string {
		if known[name] == "" {
			known[name] = fmt.Sprintf("(name %d)", len(known)+1)
		}
		return known[name]
	})
	text = ticketTime.ReplaceAllString(text, "(instant)-(client)")
	return regexp.MustCompile(`wake:[0-9A-Z]+`).ReplaceAllString(text, "wake:(client)")
}

// recordingPool records what its connections send.
type recordingPool struct {
	redlock.Pool
	mu   sync.Mutex // protects sent
	sent []string
}

type recordingConn struct {
	redis.Conn
	pool *recordingPool
}

func (p *recordingPool) GetContext(ctx context.Context) (redis.Conn, error) {
	conn, err := p.Pool.GetContext(ctx)
	return recordingConn{conn, p}, err
}

func (c recordingConn) Send(command string, args ...any) error {
	line := command
	for _, arg := range args {
		line += fmt.Sprintf(" %v", arg)
	}
	c.pool.mu.Lock()
	c.pool.sent = append(c.pool.sent, scriptNames.Replace(line))
	c.pool.mu.Unlock()
	return c.Conn.Send(command, args...)
}

func (c recordingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

func (c recordingConn) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}

func (c recordingConn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, timeout, command, args...)
}

func (c recordingConn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, command, args...)
}

// scriptNames replaces the hashes of a mutex's scripts: their texts change with the wait queue.
var scriptNames = strings.NewReplacer(protocol.Acquire.SHA().(string), "ACQUIRE", protocol.Renew.SHA().(string), "RENEW",
	protocol.Release.SHA().(string), "RELEASE")

// What a mutex sends does not change when other kinds of locks come: testdata/mutex-commands.txt
// has the commands as they were recorded before there were any, with the keys that release has
// got since, and the scripts' names for their hashes.
func TestMutexSendsTheRecordedCommands(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		pool := &recordingPool{Pool: net.Nodes[0]}
		client := func() *redlock.Client {
			c, err := redlock.New([]redlock.Pool{pool}, redlock.WithOwnerLabel("label"), redlock.WithLogger(nil), redlock.WithoutRenewal())
			require.NoError(t, err)
			net.Add(c)
			return c
		}
		a, b := client(), client()
		time.Sleep(15 * time.Second) // the node is admitted
		pool.mu.Lock()
		pool.sent = nil
		pool.mu.Unlock()
		holder, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, err = b.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.NoError(t, holder.Extend(t.Context()))
		for _, wait := range []time.Duration{50 * ms, 300 * ms} { // with a parked attempt, and without
			next := make(chan *redlock.Lease)
			go func() {
				lease, err := b.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				next <- lease
			}()
			time.Sleep(wait)
			require.NoError(t, holder.Unlock(t.Context()))
			holder = <-next
			time.Sleep(ms)
			synctest.Wait()
		}
		require.NoError(t, holder.Unlock(t.Context()))
		synctest.Wait()

		pool.mu.Lock()
		defer pool.mu.Unlock()
		sent := slices.DeleteFunc(pool.sent, func(line string) bool { return strings.HasPrefix(line, "TIME") || strings.HasPrefix(line, "PING") })
		want, err := os.ReadFile(filepath.Join("testdata", "mutex-commands.txt"))
		require.NoError(t, err)
		require.Equal(t, string(want), anonymous(sent))
	})
}
