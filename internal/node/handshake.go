package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// connect dials, shakes hands and starts the pipe. It calls late when dialling takes longer
// than it may, while it goes on.
func (n *Node) connect(ctx context.Context, late func()) (*pipe.Pipe, error) {
	conn, err := n.dial(ctx, func() {
		err := fmt.Errorf("cannot connect: no connection within %v", n.cfg.DeadAfter)
		n.setDown(err)
		n.Status.ReportDown(err)
		late()
	})
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	id, err := n.handshake(ctx, conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	p := pipe.New(conn)
	prelude := n.old.killCalls(n.server.last, id)
	n.server.last = id
	n.server.setGet.Store(id.major >= 7)
	if err := n.use(p, prelude...); err != nil {
		p.Kill(err)
		<-p.Done()
		return nil, fmt.Errorf("disconnected: %w", err)
	}
	return p, nil
}

// dial gets a connection from the pool. A pool may have no timeouts and may ignore ctx:
// then dialling can hang with the server, and there is never more than one such dial.
func (n *Node) dial(ctx context.Context, late func()) (redis.Conn, error) {
	type dialled struct {
		conn redis.Conn
		err  error
	}
	dialCtx, cancel := context.WithTimeout(ctx, n.cfg.DeadAfter)
	defer cancel()
	got := make(chan dialled, 1)
	go func() {
		conn, err := n.pool.GetContext(dialCtx)
		if err == nil && conn == nil {
			err = &UnfitError{"the pool returned no connection and no error"}
		}
		got <- dialled{conn, err}
	}()
	select {
	case d := <-got:
		return d.conn, d.err
	case <-dialCtx.Done():
	}
	late()
	select {
	case d := <-got:
		return d.conn, d.err
	case <-ctx.Done():
		go func() { // ends when the pool's dial does
			if d := <-got; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// handshake loads the scripts, asks the server for its identity, and decides whether it
// may vote.
func (n *Node) handshake(ctx context.Context, conn redis.Conn) (identity, error) {
	var id identity
	if err := shareable(conn); err != nil {
		return id, n.Status.Unfit(err.Error())
	}
	began := n.cfg.Clock()
	replies, err := n.greet(ctx, conn)
	if err != nil {
		return id, fmt.Errorf("handshake failed: %w", err)
	}
	scripts, rest := replies[:len(protocol.Loaded)], replies[len(protocol.Loaded):]
	for _, r := range scripts {
		if r.Err != nil {
			return id, fmt.Errorf("handshake failed: scripts cannot be loaded: %w", r.Err)
		}
	}
	if id.client, err = redis.Int64(rest[0].Value, rest[0].Err); err != nil {
		n.old.logRefusal(err)
	}
	if now, err := ServerTime(rest[2].Value, rest[2].Err); err == nil {
		n.offset.record(now, began, n.cfg.Clock())
	}
	info, err := redis.String(rest[1].Value, rest[1].Err)
	if err == nil {
		id.read(info)
	}
	return id, n.judge(id, err)
}

// greet sends the handshake's commands at once and collects their replies. An error reply
// is part of the answer; a broken connection is an error. It ends with ctx.
func (n *Node) greet(ctx context.Context, conn redis.Conn) ([]Reply, error) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		pipe.Cut(conn)
		close(cut)
	})
	defer func() {
		if !stop() {
			<-cut // the connection is closed next, which may not run beside this
		}
	}()
	deadline := n.cfg.Clock() + n.cfg.DeadAfter
	commands := [][]any{}
	for _, s := range protocol.Loaded {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.Text})
	}
	commands = append(commands, []any{"CLIENT", "ID"}, []any{"INFO"}, []any{"TIME"})
	for _, c := range commands {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	replies := make([]Reply, len(commands))
	for i := range replies {
		left := max(deadline-n.cfg.Clock(), time.Millisecond)
		value, err := redis.ReceiveWithTimeout(conn, left)
		var refusal redis.Error
		if err != nil && !errors.As(err, &refusal) {
			return nil, err
		}
		replies[i] = Reply{value, err}
	}
	return replies, nil
}

// shareable returns an error if a connection cannot be shared and cut.
func shareable(conn redis.Conn) error {
	_, timeouts := conn.(redis.ConnWithTimeout)
	_, contexts := conn.(redis.ConnWithContext)
	if !timeouts || !contexts {
		return fmt.Errorf("its connections (%T) must implement redis.ConnWithTimeout and redis.ConnWithContext, as redigo's do", conn)
	}
	return nil
}
