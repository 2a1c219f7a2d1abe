package redlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/loginreply"
	"github.com/redlock-go/redlock/internal/test/testreply"
	"github.com/redlock-go/redlock/redlocktest"
)

// outputs collects everything that a client shows.
type outputs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *outputs) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// show records values as programs print them.
func (o *outputs) show(values ...any) {
	for _, v := range values {
		fmt.Fprintf(o, "%v %+v %q\n", v, v, fmt.Sprint(v))
		if err, is := v.(error); is {
			o.showCauses(err)
		}
	}
}

// showCauses records the errors within an error.
func (o *outputs) showCauses(err error) {
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if why := err.Unwrap(); why != nil {
			o.show(why)
		}
	case interface{ Unwrap() []error }:
		for _, why := range err.Unwrap() {
			o.show(why)
		}
	}
}

// trace returns hooks that record every event.
func (o *outputs) trace() *redlock.Trace {
	trace := &redlock.Trace{}
	hooks := reflect.ValueOf(trace).Elem()
	for i := range hooks.NumField() {
		if hook := hooks.Field(i); hook.Kind() == reflect.Func {
			hook.Set(reflect.MakeFunc(hook.Type(), func(args []reflect.Value) []reflect.Value {
				for _, arg := range args {
					for k := range arg.NumField() {
						if v := arg.Field(k).Interface(); v != nil && arg.Type().Field(k).Name != "Context" {
							o.show(v)
						}
					}
				}
				return nil
			}))
		}
	}
	return trace
}

// requireSecret fails if an output repeats a secret, also escaped.
func (o *outputs) requireSecret(t *testing.T, secret string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, form := range []string{secret, url.QueryEscape(secret), strings.Trim(fmt.Sprintf("%q", secret), `"`)} {
		for line := range strings.Lines(o.text.String()) {
			if strings.Contains(line, form) {
				at := strings.Index(line, form)
				assert.Fail(t, "the secret is shown", "%s", line[max(0, at-300):min(len(line), at+100)])
				return
			}
		}
	}
}

// useAll calls everything that asks nodes, and records what it returns.
func (o *outputs) useAll(t *testing.T, client *redlock.Client) {
	try := func(call func(context.Context) (any, error)) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*ms)
		defer cancel()
		_, err := call(ctx)
		o.show(err)
	}
	name := t.Name()
	take := func(lock func(context.Context) (*redlock.Lease, error)) {
		try(func(ctx context.Context) (any, error) {
			lease, err := lock(ctx)
			if err == nil {
				o.show(lease.Extend(ctx), lease.Unlock(ctx))
			}
			return nil, err
		})
	}
	take(client.Mutex(name).Lock)
	take(client.Mutex(name, redlock.WithoutFencing()).TryLock)
	take(client.RWMutex(name + " rw").RLock)
	take(client.Multi([]string{name + " a", name + " b"}).TryLock)
	take(func(ctx context.Context) (*redlock.Lease, error) { return client.Semaphore(name, 2).Acquire(ctx, 1) })
	try(func(ctx context.Context) (any, error) { return nil, client.Ping(ctx) })
	try(func(ctx context.Context) (any, error) { return nil, client.WaitReady(ctx) })
	try(func(ctx context.Context) (any, error) {
		return nil, client.Mutex(name+" leader").Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error { return lease.ExtendTo(ctx, time.Minute) })
	})
	try(func(ctx context.Context) (any, error) {
		lease, err := client.Mutex(name + " passed").TryLock(ctx)
		if err != nil {
			return nil, err
		}
		text, err := lease.Transfer(ctx)
		o.show(err)
		resumed, err := client.Resume(ctx, text)
		if err == nil {
			o.show(resumed.Unlock(ctx))
		}
		return nil, err
	})
	try(func(ctx context.Context) (any, error) { return client.Inspect(ctx, name) })
	try(func(ctx context.Context) (any, error) { return client.ForceUnlock(ctx, name) })
	try(func(ctx context.Context) (any, error) { return nil, client.Ask(ctx, name) })
	try(func(ctx context.Context) (any, error) {
		for _, err := range client.Locks(ctx, "*") {
			o.show(err)
		}
		return nil, nil
	})
	for _, n := range client.Stats().Nodes {
		o.show(n.State, n.Err)
	}
}

// Servers can repeat at a login what the client sent.
func TestNoOutputRepeatsAPassword(t *testing.T) {
	const secret, most = "Geheim#7 %x", 20
	nodes := redlocktest.Start(t, 2*most+1)
	for i, group := range testreply.Echoes(secret, most) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			seen := &outputs{}
			client, err := redlock.Open(testreply.Beside(t, nodes.URLs(), group, secret), redlock.WithRestartGuard(0), redlock.WithNodeTimeout(60*ms), redlock.WithTrace(seen.trace()),
				redlock.WithLogger(slog.New(slog.NewTextHandler(seen, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			require.NoError(t, err)
			seen.useAll(t, client)
			time.Sleep(100 * ms) // the nodes that fail are logged when they fail again
			require.NoError(t, client.Close())
			if i == 0 {
				require.Contains(t, seen.text.String(), loginreply.Notice)
			}
			seen.requireSecret(t, secret)
		})
	}
}

// named is a pool with a name.
type named struct {
	redlock.Pool
	name string
}

func (n named) String() string { return n.name }

// Pools of another library log in with a password that the client does not know.
func TestErrorsOfOtherPoolsRepeatNoPassword(t *testing.T) {
	const secret = "Geheim"
	nodes := redlocktest.Start(t, 1)
	for i, c := range []struct{ reply, state, shown string }{
		{"-WRONGPASS " + secret, "unfit", "dial: WRONGPASS (" + loginreply.Notice + ") (check the user and the password)"},
		{"-ERR unknown command 'AUTH', with args beginning with: '" + secret + "' ", "unfit", "dial: ERR unknown command (" + loginreply.Notice + ") (the server does not know a command"},
		{"-" + secret, "down", "dial: " + loginreply.Notice},
		{"-ERR invalid password", "unfit", "dial: ERR invalid password (check the user and the password)"},
	} {
		echo := &testreply.Echo{Backend: strings.TrimPrefix(nodes.URLs()[0], "redis://"), Command: "AUTH", Reply: c.reply + "\r\n"}
		address := echo.Start(t)
		pool := named{&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := redis.DialContext(ctx, "tcp", address, redis.DialPassword(secret))
			if err != nil {
				return nil, fmt.Errorf("dial: %w", err)
			}
			return conn, nil
		}}, "redis://me:" + secret + "@" + address}
		seen := &outputs{}
		client, err := redlock.New([]redlock.Pool{pool}, redlock.WithTrace(seen.trace()), redlock.WithLogger(slog.New(slog.NewTextHandler(seen, nil))))
		require.NoError(t, err)
		err = client.Ping(t.Context())
		seen.show(err)
		require.ErrorContains(t, err, "node 0 (redis://…@"+address+"): not sent: cannot connect: "+c.shown, i)
		require.Equal(t, c.state, client.Stats().Nodes[0].State)
		require.NoError(t, client.Close())
		seen.requireSecret(t, secret)
	}
}
