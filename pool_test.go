package redlock_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestOpenRefusesBadURLsWithoutRepeatingThem(t *testing.T) {
	const form = "it must look like redis://host:port"
	for raw, want := range map[string]string{
		"":                             form,
		"a":                            form,
		"10.0.0.1":                     form,
		"127.0.0.1:6379":               form,
		"[::1]:6379":                   form,
		"localhost:6379":               form,
		" redis://a":                   "a space",
		"redis://a ":                   "a space",
		"redis:a":                      form,
		"me:hunter2@a":                 form,
		"http://a":                     "want redis, rediss, valkey, valkeys or unix",
		"redis://":                     "names no host",
		"redis://:6379":                "names no host",
		"redis://a:0":                  "between 1 and 65535",
		"redis://a:70000":              "between 1 and 65535",
		"redis://a/x":                  "is not a number",
		"redis://a/-1":                 "is not a number",
		"redis://a?timeout=1":          "without TLS only passwordfile is",
		"redis://a?ca=x":               "without TLS only passwordfile is",
		"rediss://a?hunter2=x":         "ca, cert, key, servername and passwordfile are",
		"rediss://a?ca=":               "its field ca must have one value",
		"rediss://a?ca=x&ca=y":         "its field ca must have one value",
		"rediss://a?cert=x":            "a certificate needs both",
		"rediss://a?ca=%zz":            "cannot be parsed",
		"rediss://a?ca=/nowhere":       "cannot read the certificate authorities: open /nowhere",
		"rediss://a?ca=pool.go":        "pool.go has no certificate in PEM form",
		"rediss://a?cert=x&key=y":      "cannot load the certificate x with the key y",
		"rediss://:1?ca=hunter2@a":     "? as %3F",
		"redis://user@a":               "without a password",
		"redis://hunter2@a":            "without a password",
		"redis://hunter2:@a":           "without a password",
		"unix://hunter2@/run/r.sock":   "without a password",
		"unix://run/redis.sock":        "unix:///path/to/socket",
		"unix:///":                     "unix:///path/to/socket",
		"unix:///s?x=1":                "only db and passwordfile are",
		"redis://:hunter2@a:99999":     "between 1 and 65535",
		"redis://:hunter2@a:port":      "cannot be parsed",
		"redis://:hunter2%zz@a":        "cannot be parsed",
		"redis://me:hunter2@a/nowhere": "is not a number",
		"redis://me:/hunter2@a":        "write / as %2F",
		"redis://:12/hunter2@a":        "write / as %2F",
		"redis://me:1#hunter2@a":       "# as %23",
		"redis://me:1#hunter2":         "has a #",
		"hunter2://me:pw@a":            "want redis, rediss, valkey, valkeys or unix",
		"unix://me:a@/s?hunter2@/run":  "? as %3F",
		"unix://me:1?hunter2%40/run":   "only db and passwordfile are",
		"unix:///hunter2@/run/r.sock":  "write / as %2F",
	} {
		requireRefusedURL(t, raw, want)
	}
	_, err := redlock.Open([]string{"redis://a", "redis://b", "redis://:pw@a:6379/2"})
	require.ErrorIs(t, err, redlock.ErrConfig)
	require.ErrorContains(t, err, "URL 1 and URL 3 both lead to a:6379")
}

func TestOpenRefusesSeveralServersInOneURL(t *testing.T) {
	for _, raw := range []string{
		"redis://a:6379,b:6379",
		"redis://a,b",
		"redis://a:6379, b:6379",
		"redis://a:6379,redis://b:6379",
		"redis://a:6379/0,redis://b:6379/0",
		"redis://:hunter2@a:6379,b:6379",
		"redis://:hunter2@a:6379,:hunter2@b:6379",
		"redis://:hunter2@a:6379,redis://:hunter2@b:6379",
		"unix:///run/a.sock,unix:///run/b.sock",
	} {
		requireRefusedURL(t, raw, "give each server a URL of its own")
	}
}

func requireRefusedURL(t *testing.T, raw, want string) {
	t.Helper()
	_, err := redlock.Open([]string{"redis://fine", raw})
	require.ErrorIs(t, err, redlock.ErrConfig, raw)
	require.ErrorContains(t, err, want, raw)
	require.ErrorContains(t, err, "URL 2 of 2", raw)
	require.NotContains(t, err.Error(), "hunter2", raw)
}

// plainPool returns connections that cannot be shared: they have neither timeouts nor contexts.
type plainPool struct{}

type plainConn struct{ redis.Conn }

func (plainConn) Close() error { return nil }

func (plainPool) GetContext(context.Context) (redis.Conn, error) { return plainConn{}, nil }

type emptyPool struct{}

func (emptyPool) GetContext(context.Context) (redis.Conn, error) { return nil, nil }

func TestErrorsNameTheFaultOfUnsuitablePools(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, err := redlock.New([]redlock.Pool{plainPool{}, emptyPool{}, net.Nodes[0]}, redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		net.Add(c)
		_, err = c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "node 0: not sent: its connections (redlock_test.plainConn) must implement")
		require.ErrorContains(t, err, "node 1: not sent: cannot connect: the pool returned no connection and no error")
	})
}

// hangingPool dials until release is closed, even if its ctx ends.
type hangingPool struct {
	*testnet.Node
	release chan struct{}
}

func (p hangingPool) GetContext(context.Context) (redis.Conn, error) {
	<-p.release
	return nil, testnet.ErrRefused
}

func TestPoolsDialMayHang(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		release := make(chan struct{})
		hanging := hangingPool{net.Nodes[0], release}
		c, err := redlock.New([]redlock.Pool{hanging, net.Nodes[1], net.Nodes[2]}, redlock.WithRestartGuard(0), redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		took := testnet.Elapsed(func() {
			lease := net.Must(c.Mutex("x").Lock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
		})
		require.LessOrEqual(t, took, testhook.Engine(c).NodeTimeout)
		time.Sleep(5 * time.Second)
		require.ErrorContains(t, c.Stats().Nodes[0].Err, "no connection within")
		require.NoError(t, c.Close())
		close(release)
	})
}

func ExampleWithWanted() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	export, err := client.Mutex("reports", redlock.WithWanted()).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	go func() { // in another process
		_ = client.Mutex("reports").Do(ctx, func(context.Context, *redlock.Lease) error { return nil })
	}()
	select {
	case <-export.Wanted():
		fmt.Println("somebody waits: the rest is exported later")
	case <-export.Done():
		fmt.Println(export.Err())
	}
	fmt.Println(export.Unlock(ctx))
	// Output:
	// somebody waits: the rest is exported later
	// <nil>
}

func TestPoolsOfADialFunction(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	pools := make([]redlock.Pool, 3)
	for i, raw := range nodes.URLs() {
		addr := strings.TrimPrefix(raw, "redis://")
		pools[i] = redlock.DialPool(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}, redlock.DialConfig{Addr: "master-" + strconv.Itoa(i)})
	}
	c := testclient.New(t, pools)
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.Equal(t, "node 1 (master-1)", c.Stats().Nodes[1].Node)
}

func TestNewRefusesBadDialPools(t *testing.T) {
	dial := func(context.Context) (net.Conn, error) { return nil, testnet.ErrRefused }
	for want, p := range map[string]redlock.Pool{
		"dial function is nil":      redlock.DialPool(nil, redlock.DialConfig{}),
		"database, -1":              redlock.DialPool(dial, redlock.DialConfig{Database: -1}),
		`client name "my name"`:     redlock.DialPool(dial, redlock.DialConfig{ClientName: "my name"}),
		`client name "a\nFLUSHALL"`: redlock.DialPool(dial, redlock.DialConfig{ClientName: "a\nFLUSHALL"}),
	} {
		_, err := redlock.New([]redlock.Pool{redlock.DialPool(dial, redlock.DialConfig{}), p})
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "pool 2 of 2")
		_, err = p.GetContext(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig, "also where another pool is made of it")
	}
}

// movingPool is a pool that a person must mend.
type movingPool struct{}

func (movingPool) GetContext(context.Context) (redis.Conn, error) {
	return nil, fmt.Errorf("%w: this client may change its master", redlock.ErrConfig)
}

func TestPoolThatIsMisconfiguredMakesItsNodeUnfit(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, err := redlock.New([]redlock.Pool{net.Nodes[0], movingPool{}, net.Nodes[2]}, redlock.WithRestartGuard(0), redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now))
		require.NoError(t, err)
		net.Add(c)
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		stats := c.Stats().Nodes[1]
		require.Equal(t, "unfit", stats.State)
		require.ErrorContains(t, stats.Err, "this client may change its master")
	})
}

func ExampleDialPool() {
	nodes, err := redlocktest.New(3) // or your servers, and how to reach them: TLS, a tunnel, a cloud's connector
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	var pools []redlock.Pool
	for _, raw := range nodes.URLs() {
		addr := strings.TrimPrefix(raw, "redis://")
		dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
		pools = append(pools, redlock.DialPool(dial, redlock.DialConfig{Addr: addr, ClientName: "billing"}))
	}
	client, err := redlock.New(pools, redlock.WithRestartGuard(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("invoice-42").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Name(), lease.Unlock(context.Background()))
	// Output: invoice-42 <nil>
}

func ExampleDialConfig() {
	nodes, err := redlocktest.New(1)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	addr := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
	credentials := func(context.Context) (user, password string, err error) {
		return "", "", nil // or what a vault, a file or a cloud's token service says now; nobody logs in here
	}
	client, err := redlock.New([]redlock.Pool{redlock.DialPool(dial, redlock.DialConfig{Credentials: credentials})}, redlock.WithRestartGuard(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("invoice-42").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Unlock(context.Background()))
	// Output: <nil>
}
