package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
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
	commands := [][]any{}
	for _, s := range h.families.Scripts() {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.Text()})
	}
	scripts := len(commands)
	replies, err := h.exchange(ctx, append(commands, []any{"CLIENT", "ID"}, []any{"INFO"}, []any{"TIME"}))
	if err != nil {
		return id, h.explain(ctx, replies, err)
	}
	rest := replies[scripts:]
	info, noInfo := redis.String(rest[1].Value, rest[1].Err)
	if noInfo == nil {
		id.read(info)
	}
	if err := h.refuse(id); err != nil { // ahead of the scripts: a sentinel refuses them
		return id, err
	}
	if err := firstError(replies[:scripts]); err != nil {
		return id, fmt.Errorf("handshake failed: scripts cannot be loaded: %w", err)
	}
	if id.client, err = redis.Int64(rest[0].Value, rest[0].Err); err != nil {
		n.old.logRefusal(err)
	}
	if now, err := ServerTime(rest[2].Value, rest[2].Err); err == nil {
		n.offset.record(now, began, n.cfg.Clock())
	}
	if isTemporary(noInfo) { // it would have another record meanwhile than afterwards
		return id, fmt.Errorf("handshake failed: the server does not answer INFO: %w", noInfo)
	}
	return id, h.judge(id, noInfo)
}

// writeError is why commands could not be written.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// exchange sends commands at once and collects their replies. An error reply is part of the answer. A broken
// connection is an error, with the replies that came before: a server that does not want a connection says why,
// and closes it, perhaps while the commands are being written. exchange ends with ctx, and with a timer of its own: a
// connection need not have deadlines, and a write has none.
func (h handshake) exchange(ctx context.Context, commands [][]any) (replies []Reply, err error) {
	limit := h.node.cfg.DeadAfter
	ctx, cancel := context.WithTimeoutCause(ctx, limit+limit/4, os.ErrDeadlineExceeded)
	defer cancel()
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		pipe.Cut(h.conn)
		close(cut)
	})
	defer func() {
		if !stop() {
			<-cut // the caller closes the connection next, and must not do so beside this
		}
		if err != nil && context.Cause(ctx) == os.ErrDeadlineExceeded {
			err = os.ErrDeadlineExceeded
		}
	}()
	deadline := h.node.cfg.Clock() + limit
	written := h.write(commands)
	for range commands {
		left := max(deadline-h.node.cfg.Clock(), time.Millisecond)
		value, err := pipe.Receive(h.conn, left)
		var refusal redis.Error
		switch {
		case err != nil && !errors.As(err, &refusal) && written != nil:
			return replies, writeError{written}
		case err != nil && !errors.As(err, &refusal):
			return replies, err
		}
		replies = append(replies, Reply{value, err})
	}
	return replies, nil
}

func (h handshake) write(commands [][]any) error {
	for _, c := range commands {
		if err := h.conn.Send(c[0].(string), c[1:]...); err != nil {
			return err
		}
	}
	return h.conn.Flush()
}

// firstError returns the first error among replies.
func firstError(replies []Reply) error {
	for _, r := range replies {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// explain returns why an exchange failed: what the server said, if that was its first reply.
func (h handshake) explain(ctx context.Context, replies []Reply, err error) error {
	n := h.node
	said := firstError(replies[:min(len(replies), 1)]) // a later one need not be why it closed the connection
	var unwritten writeError
	if said == nil && len(replies) == 0 && errors.As(err, &unwritten) && ctx.Err() == nil {
		said = h.askAgain(ctx)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it does not answer within %v", n.cfg.DeadAfter)
	case said != nil:
		return fmt.Errorf("handshake failed: %w", said)
	case len(replies) == 0:
		err = n.doubt(err)
	}
	return fmt.Errorf("handshake failed: %w", err)
}

// askAgain returns what the server says over a new connection: other libraries' connections cannot be read after a
// write that failed. askAgain writes one short command before it can know that the server has closed its end. It
// returns nil if the server says nothing.
func (h handshake) askAgain(ctx context.Context) error {
	_ = h.conn.Close() // ahead of the other one: a pool may have room for one only
	n := h.node
	conn, err := dial(ctx, n.pool, n.cfg.DeadAfter, func() {})
	if err != nil {
		return nil // the first error is the one to report
	}
	defer conn.Close()
	if shareable(conn) != nil {
		return nil
	}
	replies, err := handshake{node: n, conn: conn}.exchange(ctx, [][]any{{"CLIENT", "ID"}, {"PING"}})
	if err == nil {
		return nil // this connection works: an error is that of a command
	}
	return firstError(replies)
}

// doubt returns the error of a connection over which no answer came. It adds a question if the server closed the
// connection and has never answered this client.
func (n *Node) doubt(err error) error {
	var asked interface{ IsPlain() bool } // an error of TLS, which has its own question
	if !IsClosed(err) || errors.As(err, &asked) || n.Counters.Connects.Load() > 0 {
		return err
	}
	return fmt.Errorf("it closed the connection without an answer (%w): is this a Redis server, and "+
		"does it speak TLS?", err)
}

// IsClosed reports whether err is that of a connection that the other end has closed.
func IsClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
