// Package endpoint reads the URLs of Redis masters and connects to them: one way
// for the library and for the command line tool.
package endpoint

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

// Endpoint is where a URL leads.
type Endpoint struct {
	Network  string // "tcp" or "unix"
	Address  string // host:port, or a path
	TLS      bool
	Username string
	Password string
	DB       int
}

// Parse reads redis://[user:password@]host[:port][/db], the same with
// rediss:// for TLS, and unix://[user:password@]/path/to/socket[?db=n]. Its
// errors repeat no part of the URL that may belong to a password.
func Parse(raw string) (Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error repeats the input, and with it the password.
		return Endpoint{}, fmt.Errorf("it cannot be parsed as a URL")
	}
	if strings.Contains(u.RawQuery, "@") || u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		// Part of a password may be in there, or in what is taken for the port.
		return Endpoint{}, fmt.Errorf("it has an @ behind the address: in a user or password, write / as %%2F, ? as %%3F, # as %%23 and @ as %%40")
	}
	if u.Opaque != "" || u.Fragment != "" {
		return Endpoint{}, fmt.Errorf("it must look like redis://host:port")
	}
	e := Endpoint{Username: u.User.Username()}
	e.Password, _ = u.User.Password()
	if e.Password == "" && e.Username != "" {
		return Endpoint{}, fmt.Errorf("it names the user %q without a password: write redis://user:password@host, or redis://:password@host", e.Username)
	}
	switch u.Scheme {
	case "redis", "rediss":
		e.TLS = u.Scheme == "rediss"
		return e.tcp(u)
	case "unix":
		return e.unix(u)
	}
	return Endpoint{}, fmt.Errorf("its scheme is %q; redis, rediss and unix are known", u.Scheme)
}

func (e Endpoint) tcp(u *url.URL) (Endpoint, error) {
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
	e.Network, e.Address = "tcp", net.JoinHostPort(host, port)
	return e.database(strings.Trim(u.Path, "/"))
}

func (e Endpoint) unix(u *url.URL) (Endpoint, error) {
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
	e.Network, e.Address = "unix", u.Path
	return e.database(query.Get("db"))
}

func (e Endpoint) database(s string) (Endpoint, error) {
	if s == "" {
		return e, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return e, fmt.Errorf("its database %q is not a number", s)
	}
	e.DB = n
	return e, nil
}

// Dial connects and authenticates. Reads and writes have no timeouts of their own:
// whoever uses the connection watches it.
func (e Endpoint) Dial(ctx context.Context) (redis.Conn, error) {
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	return redis.DialContext(ctx, e.Network, e.Address,
		redis.DialContextFunc(dialer.DialContext),
		redis.DialDatabase(e.DB),
		redis.DialUsername(e.Username),
		redis.DialPassword(e.Password),
		redis.DialUseTLS(e.TLS),
	)
}
