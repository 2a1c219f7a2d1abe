package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/loginreply"
)

// Connector makes connections to one server.
type Connector struct {
	// Dial connects to the server, TLS included.
	Dial func(context.Context) (net.Conn, error)

	// Credentials returns who logs in. It is asked at each connection; nil: nobody.
	Credentials func(context.Context) (user, password string, err error)

	Database   int
	ClientName string // shown by CLIENT LIST at the server; "": none
}

// Connect connects and logs in, in one round trip. Reads and writes over the connection have no
// timeouts of their own: the caller must watch it. Connect ends with ctx, if Dial and Credentials do.
func (c *Connector) Connect(ctx context.Context) (redis.Conn, error) {
	commands, err := c.login(ctx)
	if err != nil {
		return nil, err
	}
	socket, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if socket == nil {
		return nil, errors.New("the dial function returned no connection and no error")
	}
	conn := newConn(socket)
	stop := context.AfterFunc(ctx, func() { _ = conn.fail(context.Cause(ctx)) })
	err = greet(conn, commands)
	if !stop() {
		err = context.Cause(ctx) // the socket is closed, or is about to be
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// command is one command of the login.
type command struct {
	name     string
	args     []any
	fails    string // what the error says when the server refuses it
	optional bool   // a refusal does no harm
}

// login returns the commands that open a connection.
func (c *Connector) login(ctx context.Context) ([]command, error) {
	var commands []command
	if c.Credentials != nil {
		user, password, err := c.Credentials(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("no credentials: %w", err)
		case user != "":
			commands = append(commands, command{name: "AUTH", args: []any{user, password}, fails: "cannot log in"})
		case password != "":
			commands = append(commands, command{name: "AUTH", args: []any{password}, fails: "cannot log in"})
		}
	}
	if c.Database != 0 {
		commands = append(commands, command{name: "SELECT", args: []any{c.Database}, fails: "cannot select the database"})
	}
	if c.ClientName != "" {
		commands = append(commands, command{name: "CLIENT", args: []any{"SETNAME", c.ClientName}, optional: true})
	}
	return commands, nil
}

// greet sends the commands at once, and reads their answers: also if a write failed, since a server that does not want
// the connection says why and closes it.
func greet(conn redis.Conn, commands []command) error {
	if len(commands) == 0 {
		return nil
	}
	written := write(conn, commands)
	for _, c := range commands {
		_, err := conn.Receive()
		_, refused := err.(redis.Error)
		switch {
		case err == nil, refused && c.optional:
		case refused:
			return &loginreply.CheckedError{Err: fmt.Errorf("%s: %w", c.fails, err)}
		case written != nil:
			return written
		default:
			return err
		}
	}
	return nil
}

func write(conn redis.Conn, commands []command) error {
	for _, c := range commands {
		if err := conn.Send(c.name, c.args...); err != nil {
			return err
		}
	}
	return conn.Flush()
}
