package redlock

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pool is a source of connections to one master; a redigo *redis.Pool is one.
// The client takes one connection and keeps it, so that many goroutines share
// it; and a second one from the first Lock on that has to wait. The connections must implement redis.ConnWithTimeout and
// redis.ConnWithContext, as redigo's do. Their own timeouts are not needed.
//
// A pool that implements fmt.Stringer is named so in errors and logs.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// endpoint is where a URL leads.
type endpoint struct {
	network  string // "tcp" or "unix"
	address  string // host:port, or a path
	tls      bool
	username string
	password string
	db       int
}

// parseURL reads redis://[user:password@]host[:port][/db], the same with
// rediss:// for TLS, and unix://[user:password@]/path/to/socket[?db=n].
func parseURL(raw string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error repeats the input, and with it the password.
		return endpoint{}, fmt.Errorf("it cannot be parsed as a URL")
	}
	if strings.Contains(u.RawQuery, "@") || u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		// Part of a password may be in there, or in what is taken for the port.
		return endpoint{}, fmt.Errorf("it has an @ behind the address: in a user or password, write / as %%2F, ? as %%3F, # as %%23 and @ as %%40")
	}
	if u.Opaque != "" || u.Fragment != "" {
		return endpoint{}, fmt.Errorf("it must look like redis://host:port")
	}
	e := endpoint{username: u.User.Username()}
	e.password, _ = u.User.Password()
	if e.password == "" && e.username != "" {
		return endpoint{}, fmt.Errorf("it names the user %q without a password: write redis://user:password@host, or redis://:password@host", e.username)
	}
	switch u.Scheme {
	case "redis", "rediss":
		e.tls = u.Scheme == "rediss"
		return e.tcp(u)
	case "unix":
		return e.unix(u)
	}
	return endpoint{}, fmt.Errorf("its scheme is %q; redis, rediss and unix are known", u.Scheme)
}

func (e endpoint) tcp(u *url.URL) (endpoint, error) {
	if u.RawQuery != "" {
		return e, fmt.Errorf("it has a query; none is known for %s", u.Scheme)
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return e, fmt.Errorf("it names no host")
	}
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return e, fmt.Errorf("its port %q is not between 1 and 65535", port)
	}
	e.network, e.address = "tcp", net.JoinHostPort(host, port)
	return e.database(strings.Trim(u.Path, "/"))
}

func (e endpoint) unix(u *url.URL) (endpoint, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return e, fmt.Errorf("its query cannot be parsed")
	}
	for key := range query {
		if key != "db" {
			return e, fmt.Errorf("its query has %q; only db is known", key)
		}
	}
	if u.Host != "" || !path.IsAbs(u.Path) || u.Path == "/" {
		return e, fmt.Errorf("it must look like unix:///path/to/socket")
	}
	e.network, e.address = "unix", u.Path
	return e.database(query.Get("db"))
}

func (e endpoint) database(s string) (endpoint, error) {
	if s == "" {
		return e, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return e, fmt.Errorf("its database %q is not a number", s)
	}
	e.db = n
	return e, nil
}

// urlPool is the pool that Open makes of a URL. It keeps no idle connections:
// the client has its own, and keeps it.
type urlPool struct {
	redis.Pool
	address string
}

func (p *urlPool) String() string { return p.address }

// newURLPool makes a pool for an endpoint. Reads and writes have no timeouts of
// their own: the node watches its connection.
func newURLPool(e endpoint) *urlPool {
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	options := []redis.DialOption{
		redis.DialContextFunc(dialer.DialContext),
		redis.DialDatabase(e.db),
		redis.DialUsername(e.username),
		redis.DialPassword(e.password),
		redis.DialUseTLS(e.tls),
	}
	return &urlPool{
		address: e.address,
		Pool: redis.Pool{
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, e.network, e.address, options...)
			},
		},
	}
}
