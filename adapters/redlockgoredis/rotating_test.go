package redlockgoredis

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"context"

	"github.com/alicebob/miniredis/v2"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testclient"
)

// echo is a connection that answers each command with its words, in order. It refuses logins as "unknown".
type echo struct {
	redigo.Conn
	sent  []string
	read  int
	fails error // what Receive returns instead of an answer
}

func (e *echo) Send(command string, args ...any) error {
	words := []string{command}
	for _, a := range args {
		words = append(words, a.(string))
	}
	e.sent = append(e.sent, strings.Join(words, " "))
	return nil
}

func (e *echo) Receive() (any, error) {
	if e.fails != nil {
		return nil, e.fails
	}
	e.read++
	command := e.sent[e.read-1]
	if strings.HasPrefix(command, "AUTH unknown") {
		return nil, redigo.Error("WRONGPASS")
	}
	return command, nil
}

func (e *echo) ReceiveWithTimeout(time.Duration) (any, error) { return e.Receive() }
func (e *echo) ReceiveContext(context.Context) (any, error)   { return e.Receive() }
func (e *echo) Do(command string, args ...any) (any, error) {
	return e.DoWithTimeout(0, command, args...)
}
func (e *echo) DoContext(_ context.Context, command string, args ...any) (any, error) {
	return e.DoWithTimeout(0, command, args...)
}

func (e *echo) DoWithTimeout(_ time.Duration, command string, args ...any) (any, error) {
	_ = e.Send(command, args...)
	e.read = len(e.sent) - 1
	return e.Receive()
}

// newRotating returns a connection whose commands are echoed.
func newRotating() (*rotatingConn, *echo) {
	e := &echo{}
	return &rotatingConn{shared: e}, e
}

// requireAnswers receives the answers to commands that were sent, in each of redigo's ways.
func requireAnswers(t *testing.T, c *rotatingConn, want ...string) {
	t.Helper()
	for i, w := range want {
		receive := []func() (any, error){c.Receive, func() (any, error) { return c.ReceiveWithTimeout(time.Second) },
			func() (any, error) { return c.ReceiveContext(t.Context()) }}[i%3]
		answer, err := receive()
		require.NoError(t, err)
		require.Equal(t, w, answer)
	}
}

func TestNewCredentialsGoBeforeTheNextCommand(t *testing.T) {
	c, e := newRotating()
	require.NoError(t, c.Send("A"))
	c.OnNext(auth.NewBasicCredentials("me", "first"))
	c.OnNext(auth.NewBasicCredentials("me", "second")) // the newest counts
	require.NoError(t, c.Send("B", "1"))
	require.NoError(t, c.Send("C"))
	c.OnNext(auth.NewBasicCredentials("", "alone"))
	requireAnswers(t, c, "A", "B 1")
	require.NoError(t, c.Send("D"))
	requireAnswers(t, c, "C", "D")
	require.Equal(t, []string{"A", "AUTH me second", "B 1", "C", "AUTH alone", "D"}, e.sent)
	e.fails = io.EOF
	_, err := c.Receive()
	require.ErrorIs(t, err, io.EOF)
}

func TestRefusedCredentialsAreSentAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := newRotating()
		c.OnNext(auth.NewBasicCredentials("unknown", "1"))
		require.NoError(t, c.Send("A"))
		requireAnswers(t, c, "A")
		require.NoError(t, c.Send("B"))
		time.Sleep(retryLogin)
		require.NoError(t, c.Send("C"))
		requireAnswers(t, c, "B", "C")
		c.OnNext(auth.NewBasicCredentials("me", "2"))
		require.NoError(t, c.Send("D"))
		requireAnswers(t, c, "D")
		require.Equal(t, []string{"AUTH unknown 1", "A", "B", "AUTH unknown 1", "C", "AUTH me 2", "D"}, e.sent)
		require.Nil(t, c.next, "newer credentials replace the refused ones")
	})
}

func TestSubscribedConnectionsSendNoLogin(t *testing.T) {
	c, e := newRotating()
	require.NoError(t, c.Send("SUBSCRIBE", "x"))
	c.OnNext(auth.NewBasicCredentials("me", "2"))
	require.NoError(t, c.Send("PING"))
	require.Equal(t, []string{"SUBSCRIBE x", "PING"}, e.sent)
}

func TestDoReceivesAllAnswers(t *testing.T) {
	c, _ := newRotating()
	for i := range 3 {
		c.OnNext(auth.NewBasicCredentials("me", "2"))
		require.NoError(t, c.Send("A"))
		do := []func() (any, error){func() (any, error) { return c.Do("B") }, func() (any, error) { return c.DoWithTimeout(time.Second, "B") },
			func() (any, error) { return c.DoContext(t.Context(), "B") }}[i]
		answer, err := do()
		require.NoError(t, err)
		require.Equal(t, "B", answer)
		c.OnNext(auth.NewBasicCredentials("me", "3"))
		require.NoError(t, c.Send("C"))
		requireAnswers(t, c, "C")
	}
}

// provider is a streaming provider of credentials.
type provider struct {
	mu        sync.Mutex // protects what follows
	now       auth.Credentials
	listeners map[auth.CredentialsListener]bool
	fails     error
}

func (p *provider) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return nil, nil, p.fails
	}
	p.listeners[l] = true
	return p.now, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, l)
		return nil
	}, nil
}

func (p *provider) rotate(user, password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = auth.NewBasicCredentials(user, password)
	for l := range p.listeners {
		l.OnError(errors.New("it was late"))
		l.OnNext(p.now)
	}
}

func TestStreamedCredentials(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("me", "first")
	p := &provider{now: auth.NewBasicCredentials("me", "first"), listeners: map[auth.CredentialsListener]bool{}}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), StreamingCredentialsProvider: p})
	defer client.Close()
	c := testclient.New(t, Pools(client))
	lock := func() error {
		lease, err := c.Mutex("x").Lock(t.Context())
		if err != nil {
			return err
		}
		return lease.Unlock(t.Context())
	}
	require.NoError(t, lock())
	server.RequireUserAuth("me", "second")
	p.rotate("me", "second")
	require.NoError(t, lock())
	require.EqualValues(t, 1, c.Stats().Nodes[0].Connects, "over the same connection")
	require.NoError(t, c.Close())
	require.Empty(t, p.listeners, "closed connections have unsubscribed")
}

func TestConnectionsThatFailLeaveNoSubscription(t *testing.T) {
	p := &provider{now: auth.NewBasicCredentials("me", "first"), listeners: map[auth.CredentialsListener]bool{}}
	client := redis.NewClient(&redis.Options{Addr: "a:1", StreamingCredentialsProvider: p,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrUnexpectedEOF }})
	defer client.Close()
	pool, err := Pool(client)
	require.NoError(t, err)
	_, err = pool.GetContext(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Empty(t, p.listeners)
	p.fails = errors.New("the token has expired")
	_, err = pool.GetContext(t.Context())
	require.ErrorContains(t, err, "no credentials: the token has expired")
	require.Equal(t, "a:1", pool.(interface{ String() string }).String())
}
