package node

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
	// pingInterval is how often the client sends a ping over a subscription's connection,
	// which it gives up when nothing comes for longer than maxSilence.
	pingInterval = 15 * time.Second
	maxSilence   = 40 * time.Second

	// refusedPause is the pause before the client tries again to subscribe at a node that
	// refused.
	refusedPause = 30 * time.Second

	// clockReadInterval is how many pings there are between two readings of the clock.
	clockReadInterval = 4
)

// Subscriber receives the messages of a node's subscription.
type Subscriber interface {
	Subscribed(n *Node, ok bool) // whether messages arrive from now on
	Message(n *Node, text string)

	// News brings a message of one of the Channels; text is "" when messages arrive there from now on.
	News(n *Node, channel, text string)
}

// Listen keeps a second connection to the node, which subscribes to a channel and to others, until ctx
// ends.
func (n *Node) Listen(ctx context.Context, channel string, others *Channels, to Subscriber) {
	(&subscription{n, channel, others, to}).run(ctx)
}

// subscription is a subscription to channels of a node, over connections of its own.
type subscription struct {
	node    *Node
	channel string
	others  *Channels
	to      Subscriber
}

// run subscribes again and again until ctx ends.
func (s *subscription) run(ctx context.Context) {
	n := s.node
	pause := firstPause
	refusalLogged := false
	for ctx.Err() == nil {
		began := n.cfg.Clock()
		err := s.subscribe(ctx)
		s.to.Subscribed(n, false)
		var refusal redis.Error
		switch {
		case errors.As(err, &refusal):
			if !refusalLogged && ctx.Err() == nil {
				refusalLogged = true
				n.cfg.Events.Log(slog.LevelWarn,
					"cannot subscribe to wake-ups at this node; waiters fall back to polling",
					"node", n.Name, "error", Advise(err))
			}
			pause = refusedPause
		case n.cfg.Clock()-began > maxPause:
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		// The name of this draw must stay: another one changes all simulated histories.
		case <-time.After(pause/2 + n.cfg.Random.Below(pause/2, "to hear "+n.Name)):
		}
		pause = min(2*pause, max(pause, maxPause))
	}
}

// subscribe subscribes, and hands messages over until the connection ends.
func (s *subscription) subscribe(ctx context.Context) error {
	// A subscription begins after the node's own connection, and ends with it: the pool may
	// have room for one connection only.
	p := s.node.link.pipe.Load()
	if p == nil {
		return errConnecting
	}
	conn, err := dial(ctx, s.node.pool, s.node.cfg.DeadAfter, func() {})
	if err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	if err := shareable(conn); err != nil {
		_ = conn.Close()
		return err
	}
	listening, end := context.WithCancel(ctx)
	cut := make(chan struct{})
	context.AfterFunc(listening, func() {
		pipe.Cut(conn)
		close(cut)
	})
	pinging := make(chan struct{})
	// A connection need not have deadlines for its replies. So there is a timer beside them.
	silence := s.node.cfg.DeadAfter + maxSilence
	silent := time.AfterFunc(silence, end)
	defer func() {
		silent.Stop()
		end()
		<-cut
		<-pinging
		_ = conn.Close() // it is broken already
	}()
	if err := conn.Send("SUBSCRIBE", s.channel); err != nil {
		close(pinging)
		return err
	}
	err = conn.Flush()
	go func() {
		defer close(pinging)
		defer end()
		s.write(listening, conn, p)
	}()
	subscribed := false // to the channel of wake-ups
	for err == nil {
		var reply []any
		if reply, err = redis.Values(pipe.Receive(conn, maxSilence)); err == nil {
			silent.Reset(silence)
			s.handlePush(reply)
			subscribed = true // that is the first command
		}
		var refusal redis.Error
		if subscribed && errors.As(err, &refusal) {
			err = nil // it is about one of the other channels: to subscribe there, or no more, may be forbidden
		}
	}
	return err
}

// handlePush handles what the server sent over the subscription.
func (s *subscription) handlePush(reply []any) {
	if len(reply) == 0 {
		return
	}
	switch kind, _ := redis.String(reply[0], nil); kind {
	case "subscribe", "message":
		if len(reply) != 3 {
			return
		}
		channel, _ := redis.String(reply[1], nil)
		text, _ := redis.String(reply[2], nil) // of a subscription it is a number
		switch {
		case channel != s.channel:
			s.to.News(s.node, channel, text)
		case kind == "message":
			s.to.Message(s.node, text)
		default:
			s.readClock()
			s.to.Subscribed(s.node, true)
		}
	}
}

// write subscribes to the other channels, and sends pings over the subscription, so that a dead connection is noticed.
// It reads the server's clock every clockReadInterval pings. It returns when ctx ends, or when the subscription's
// connection or p, the node's own, breaks.
func (s *subscription) write(ctx context.Context, conn redis.Conn, p *pipe.Pipe) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	changes, leave := s.others.open()
	defer leave()
	for pings := 0; ; {
		commands := s.others.take(changes)
		for _, c := range commands {
			if conn.Send(c.Name, c.Args...) != nil {
				return // the receiving goroutine sees the error too
			}
		}
		if len(commands) > 0 && conn.Flush() != nil {
			return
		}
		select {
		case <-changes.signal:
			continue
		case <-ticker.C:
		case <-p.Done():
			return
		case <-ctx.Done():
			return
		}
		if conn.Send("PING") != nil || conn.Flush() != nil {
			return
		}
		if pings++; pings%clockReadInterval == 0 {
			s.readClock()
		}
	}
}

// readClock reads the server's clock, if the node is connected. If that fails, the next
// reading replaces it.
func (s *subscription) readClock() {
	n := s.node
	p := n.link.pipe.Load()
	if p == nil {
		return
	}
	asked := n.cfg.Clock()
	if server, err := ServerTime(n.Request(p, "TIME")); err == nil {
		n.offset.record(server, asked, n.cfg.Clock())
	}
}
