package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// handshake is the first exchange over a new connection.
type handshake struct {
	node     *Node
	conn     redis.Conn
	families protocol.Families // whose scripts it loads
}

// shakeHands loads the scripts, asks the server for its identity, and decides whether it
// may vote.
func (h handshake) shakeHands(ctx context.Context) (identity, error) {
	n := h.node
	var id identity
	if err := shareable(h.conn); err != nil {
		return id, n.Status.Unfit(err.Error())
	}
	began := n.cfg.Clock()
	replies, err := h.greet(ctx)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return id, fmt.Errorf("it does not answer within %v", n.cfg.DeadAfter)
	case err != nil:
		return id, fmt.Errorf("handshake failed: %w", err)
	}
	scripts := len(h.families.Scripts())
	rest := replies[scripts:]
	for _, r := range replies[:scripts] {
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
	switch {
	case err == nil:
		id.read(info)
	case isTemporary(err): // it would have another record meanwhile than afterwards
		return id, fmt.Errorf("handshake failed: the server does not answer INFO: %w", err)
	}
	return id, h.judge(id, err)
}

// greet sends the handshake's commands at once and collects their replies. An error reply
// is part of the answer; a broken connection is an error. It ends with ctx.
func (h handshake) greet(ctx context.Context) ([]Reply, error) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		pipe.Cut(h.conn)
		close(cut)
	})
	defer func() {
		if !stop() {
			<-cut // the caller closes the connection next, and must not do so beside this
		}
	}()
	deadline := h.node.cfg.Clock() + h.node.cfg.DeadAfter
	commands := [][]any{}
	for _, s := range h.families.Scripts() {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.Text})
	}
	commands = append(commands, []any{"CLIENT", "ID"}, []any{"INFO"}, []any{"TIME"})
	for _, c := range commands {
		if err := h.conn.Send(c[0].(string), c[1:]...); err != nil {
			return nil, err
		}
	}
	if err := h.conn.Flush(); err != nil {
		return nil, err
	}
	replies := make([]Reply, len(commands))
	for i := range replies {
		left := max(deadline-h.node.cfg.Clock(), time.Millisecond)
		value, err := pipe.Receive(h.conn, left)
		var refusal redis.Error
		if err != nil && !errors.As(err, &refusal) {
			return nil, err
		}
		replies[i] = Reply{value, err}
	}
	return replies, nil
}
