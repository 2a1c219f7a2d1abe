package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

const (
	// earPing is how often a node is asked whether the connection on which it calls
	// still stands; it is given up when nothing comes for longer than earSilence.
	earPing    = 15 * time.Second
	earSilence = 40 * time.Second

	// noEar is how long a node that refuses such a connection is left alone.
	noEar = 30 * time.Second
)

// listen keeps a second connection to the node, on which it calls the client's
// waiters, until ctx ends.
func (n *node) listen(ctx context.Context, l *line) {
	pause := firstPause
	complained := false
	for ctx.Err() == nil {
		began := n.opts.clock()
		err := n.hear(ctx, l)
		l.hears(n.index, false)
		var refusal redis.Error
		switch {
		case errors.As(err, &refusal):
			if !complained && ctx.Err() == nil {
				complained = true
				n.opts.herald.log(slog.LevelWarn, "a node cannot call those who wait for a lock: they look again now and then instead",
					"node", n.name, "error", advise(err))
			}
			pause = noEar
		case n.opts.clock()-began > maxPause:
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + n.opts.chance.below(pause/2, "to hear "+n.name)):
		}
		pause = min(2*pause, max(pause, maxPause))
	}
}

// hear subscribes and hands the node's calls over until the connection ends.
func (n *node) hear(ctx context.Context, l *line) error {
	// Not before the node's own connection stands, nor longer than it does: the
	// pool may have room for one only.
	p := n.pipe.Load()
	if p == nil {
		return errConnecting
	}
	conn, err := n.dial(ctx, func() {})
	if err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	if err := suitable(conn); err != nil {
		_ = conn.Close()
		return err
	}
	hearing, end := context.WithCancel(ctx)
	cut := make(chan struct{})
	context.AfterFunc(hearing, func() {
		pipe.Cut(conn)
		close(cut)
	})
	pinging := make(chan struct{})
	defer func() {
		end()
		<-cut
		<-pinging
		_ = conn.Close() // it is broken already
	}()
	if err := conn.Send("SUBSCRIBE", l.channel()); err != nil {
		close(pinging)
		return err
	}
	err = conn.Flush()
	go func() {
		defer close(pinging)
		defer end()
		n.keepHearing(hearing, conn, p)
	}()
	for err == nil {
		var reply []any
		if reply, err = redis.Values(redis.ReceiveWithTimeout(conn, earSilence)); err == nil {
			n.understandCall(l, reply)
		}
	}
	return err
}

// understandCall takes what came on the connection for calls.
func (n *node) understandCall(l *line, reply []any) {
	if len(reply) == 0 {
		return
	}
	switch kind, _ := redis.String(reply[0], nil); kind {
	case "subscribe":
		n.askTime()
		l.hears(n.index, true)
	case "message":
		if len(reply) == 3 {
			text, _ := redis.String(reply[2], nil)
			l.heard(n, text)
		}
	}
}

// keepHearing pings, so that a connection that leads nowhere is noticed, and now
// and then asks for the time.
func (n *node) keepHearing(ctx context.Context, conn redis.Conn, p *pipe.Pipe) {
	ticker := time.NewTicker(earPing)
	defer ticker.Stop()
	for i := 1; ; i++ {
		select {
		case <-ticker.C:
		case <-p.Done():
			return
		case <-ctx.Done():
			return
		}
		if conn.Send("PING") != nil || conn.Flush() != nil {
			return // the receiver learns it too
		}
		if i%4 == 0 {
			n.askTime()
		}
	}
}
