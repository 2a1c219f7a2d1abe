package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// Servers whose clocks are set back by an hour while they run, by libfaketime. Without what
// docs/safety.md (Clocks that are set back) says, each of these tests waits for that hour.

// fakeClocks are servers whose clocks a test sets.
type fakeClocks struct {
	urls []string
	file string // by how many seconds their clocks are ahead
}

// newFakeClocks starts three servers. It skips the test where libfaketime is missing, or no server program
// runs under it.
func newFakeClocks(t *testing.T) *fakeClocks {
	t.Helper()
	notInShort(t)
	library, _ := filepath.Glob("/usr/lib*/**/faketime/libfaketimeMT.so.1")
	if len(library) == 0 {
		t.Skip("no libfaketime: install it to set the clocks of servers back")
	}
	f := &fakeClocks{file: filepath.Join(t.TempDir(), "ahead")}
	f.set(t, 0)
	for _, program := range append(filepath.SplitList(os.Getenv("REDLOCK_TEST_SERVERS")), "redis-server") {
		if path, err := exec.LookPath(program); err == nil && f.start(t, path, library[0]) {
			return f
		}
	}
	t.Skip("no server program runs under libfaketime here: name one in REDLOCK_TEST_SERVERS, such as Valkey 8.0.1")
	return nil
}

// start starts the servers, and reports whether all of them answer.
func (f *fakeClocks) start(t *testing.T, program, library string) bool {
	t.Helper()
	f.urls = nil
	for range 3 {
		port, err := cluster.FreePort()
		require.NoError(t, err)
		cmd := exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "FAKETIME_TIMESTAMP_FILE="+f.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		})
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if !answers(address) {
			return false
		}
		f.urls = append(f.urls, "redis://"+address)
	}
	return true
}

// answers reports whether a server answers PING soon.
func answers(address string) bool {
	for until := time.Now().Add(soon); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		conn, err := redis.Dial("tcp", address, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
		if err != nil {
			continue
		}
		_, err = conn.Do("PING")
		conn.Close()
		if err == nil {
			return true
		}
	}
	return false
}

// set sets all servers' clocks.
func (f *fakeClocks) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	next := f.file + ".new" // a server must not read half of it
	require.NoError(t, os.WriteFile(next, []byte(fmt.Sprintf("%+d", int(ahead.Seconds()))), 0o600))
	require.NoError(t, os.Rename(next, f.file))
}

// setBack sets all servers' clocks back by an hour, and sees to it that they show that.
func (f *fakeClocks) setBack(t *testing.T) {
	t.Helper()
	f.set(t, -time.Hour)
	for _, url := range f.urls {
		conn, err := redis.DialURL(url)
		require.NoError(t, err)
		defer conn.Close()
		now, err := redis.Int64s(conn.Do("TIME"))
		require.NoError(t, err)
		require.Less(t, now[0], time.Now().Add(-30*time.Minute).Unix(), "the server's clock is not set back")
	}
}

const setBackTTL = 5 * time.Second

// open opens a client of the servers.
func (f *fakeClocks) open(t *testing.T, ready bool) *redlock.Client {
	opts := []redlock.ClientOption{redlock.WithTTL(setBackTTL), redlock.WithNodeTimeout(2 * time.Second), redlock.WithRestartGuard(setBackTTL)}
	if ready {
		return testclient.Open(t, f.urls, opts...)
	}
	return testclient.OpenUnready(t, f.urls, opts...)
}

// inTime is some ttls and looks on a busy machine, and far from an hour.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestQuarantineEndsInTimeThoughClocksAreSetBack(t *testing.T) {
	f := newFakeClocks(t)
	c := f.open(t, false)
	time.Sleep(time.Second)
	f.setBack(t)
	began := time.Now()
	require.NoError(t, c.WaitReady(inTime(t)))
	t.Log("ready after", time.Since(began))
}

func TestKeysOfDeadHoldersEndInTimeThoughClocksAreSetBack(t *testing.T) {
	f := newFakeClocks(t)
	type lock = func(context.Context) (*redlock.Lease, error)
	locks := func(c *redlock.Client) (held, wanted map[string]lock) {
		permit := func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("z", 1).Acquire(ctx, 1) }
		held = map[string]lock{"mutex": c.Mutex("x").Lock, "readers": c.RWMutex("y").RLock, "permit": permit}
		return held, map[string]lock{"mutex": c.Mutex("x").Lock, "readers": c.RWMutex("y").Lock, "permit": permit}
	}
	dead, c := f.open(t, true), f.open(t, true)
	held, _ := locks(dead)
	for name, hold := range held {
		l, err := hold(t.Context())
		require.NoError(t, err, name)
		testhook.Engine(dead).Renewer.Forget(testhook.Lease(l))
		defer runtime.KeepAlive(l)
	}
	f.setBack(t)
	_, wanted := locks(c)
	for name, want := range wanted {
		began := time.Now()
		l, err := want(inTime(t))
		require.NoError(t, err, name)
		t.Log(name, "after", time.Since(began))
		require.NoError(t, l.Unlock(t.Context()))
	}
}

func TestTokensGrowThoughClocksAreSetBackAndAllServersForget(t *testing.T) {
	f := newFakeClocks(t)
	c := f.open(t, true)
	token := func(c *redlock.Client) int64 {
		l, err := c.Mutex("x").Lock(inTime(t))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		return l.Token()
	}
	forget := func() {
		for _, url := range f.urls {
			conn, err := redis.DialURL(url)
			require.NoError(t, err)
			_, err = conn.Do("FLUSHALL")
			conn.Close()
			require.NoError(t, err)
		}
	}
	before := token(c)
	f.setBack(t)
	forget()
	after := token(c)
	require.Greater(t, after, before)
	require.NoError(t, c.Close())
	forget()
	require.Greater(t, token(f.open(t, false)), after, "of a client that comes when all is lost")
}

// timeReply is the answer to TIME: seconds and microseconds.
var timeReply = regexp.MustCompile(`^\*2\r\n\$\d+\r\n(\d+)\r\n\$\d+\r\n(\d+)\r\n$`)

// fakeTime returns the address of a server whose clock is ahead by the result of ahead, some
// time after now. It is a proxy that changes the answers to TIME.
func fakeTime(t *testing.T, target string, ahead func(passed time.Duration) time.Duration) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	begun := time.Now()
	var conns []net.Conn
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			conns = append(conns, client, server)
			go func() { _, _ = io.Copy(server, client) }()
			go rewriteTime(client, server, func() time.Duration { return ahead(time.Since(begun)) })
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-over
		for _, c := range conns {
			c.Close()
		}
	})
	return ln.Addr().String()
}

// rewriteTime passes answers on. The client awaits each before it asks again, so an answer
// as short as TIME's comes in one piece.
func rewriteTime(client io.Writer, server io.Reader, ahead func() time.Duration) {
	for piece := make([]byte, 64<<10); ; {
		n, err := server.Read(piece)
		if err != nil {
			return
		}
		answer := piece[:n]
		if m := timeReply.FindSubmatch(answer); m != nil {
			seconds, _ := strconv.ParseInt(string(m[1]), 10, 64)
			micros, _ := strconv.ParseInt(string(m[2]), 10, 64)
			at := time.Unix(seconds, micros*1000).Add(ahead())
			s, us := strconv.FormatInt(at.Unix(), 10), strconv.Itoa(at.Nanosecond()/1000)
			answer = fmt.Appendf(nil, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(s), s, len(us), us)
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}
