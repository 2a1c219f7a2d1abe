package redlockgoredis

import (
	"context"
	"fmt"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9/auth"
)

// rotatingPool is a pool whose credentials change while its connections are open.
type rotatingPool struct {
	pool
	provider auth.StreamingCredentialsProvider
}

func (p *rotatingPool) GetContext(ctx context.Context) (redigo.Conn, error) {
	c := &rotatingConn{}
	now, unsubscribe, err := p.provider.Subscribe(c)
	if err != nil {
		return nil, fmt.Errorf("no credentials: %w", err)
	}
	user, password := now.BasicAuth()
	conn, err := p.withCredentials(func(context.Context) (string, string, error) { return user, password, nil }).GetContext(ctx)
	if err != nil {
		_ = unsubscribe() // the error of the connection is the one to report
		return nil, err
	}
	c.shared, c.unsubscribe = conn.(shared), unsubscribe
	return c, nil
}

// shared is a connection as redlock needs it.
type shared interface {
	redigo.ConnWithTimeout
	redigo.ConnWithContext
}

// retryLogin is the pause after the server has refused new credentials, which it may not know yet. Until then, and
// as long as the server allows it, the connection goes on under the old ones.
const retryLogin = time.Second

// rotatingConn logs in again when the credentials have changed: before the next command, whose sender does not see that,
// since receive drops the answer. One goroutine may send, and another receive, as for every connection of redigo.
type rotatingConn struct {
	shared
	unsubscribe auth.UnsubscribeFunc

	mu         sync.Mutex // protects what follows
	next       *login     // not sent yet
	subscribed bool       // the server takes no AUTH any more over this connection
	sent       int        // commands
	received   int        // answers
	logins     []login    // sent and not answered, oldest first
}

// login is an AUTH command.
type login struct {
	user, password string
	at             int       // its place among the commands that were sent
	notBefore      time.Time // when to send it
}

// OnNext implements auth.CredentialsListener.
func (c *rotatingConn) OnNext(credentials auth.Credentials) {
	user, password := credentials.BasicAuth()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = &login{user: user, password: password}
}

// OnError implements auth.CredentialsListener. The connection goes on as long as the server allows it.
func (c *rotatingConn) OnError(error) {}

// Send sends a command, and before it a login that is due.
func (c *rotatingConn) Send(command string, args ...any) error {
	c.mu.Lock()
	due := c.next
	if due != nil && (c.subscribed || time.Now().Before(due.notBefore)) {
		due = nil
	}
	if due != nil {
		due.at, c.next = c.sent, nil
		c.logins = append(c.logins, *due)
		c.sent++
	}
	c.sent++
	c.subscribed = c.subscribed || command == "SUBSCRIBE"
	c.mu.Unlock()
	if due != nil {
		if err := c.shared.Send("AUTH", due.args()...); err != nil {
			return err
		}
	}
	return c.shared.Send(command, args...)
}

func (l *login) args() []any {
	if l.user == "" {
		return []any{l.password}
	}
	return []any{l.user, l.password}
}

// Close closes the connection, and ends the subscription to its credentials.
func (c *rotatingConn) Close() error {
	err := c.shared.Close()
	if failed := c.unsubscribe(); err == nil {
		err = failed
	}
	return err
}
