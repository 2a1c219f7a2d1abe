package redlock

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/testreply"
)

// A reply is understood as one of those that the scripts give, or not at all.
func FuzzReply(f *testing.F) {
	for _, reply := range testreply.Samples() {
		f.Add(testreply.Plant(reply))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		replies := testreply.Grow(data)
		if len(replies) == 0 {
			return
		}
		for _, kind := range []*ballotKind{acquiring, claiming, raising, renewing, releasing, pinging} {
			requireUnderstood(t, kind, replies[0])
		}
		requireCallsDoNoHarm(unconnected(t), replies[0])
		requireInspected(t, replies[0])
	})
}

// sense is what a reply means, told by the scripts' own comments.
func sense(kind *ballotKind, reply any) Outcome {
	n, number := reply.(int64)
	held := isHolder(testreply.Values(reply))
	switch kind {
	case pinging:
		_, text := reply.(string)
		return map[bool]Outcome{true: Granted, false: Unknown}[text]
	}
	switch {
	case held && kind != raising && kind != releasing:
		return Refused
	case !number:
		return Unknown
	}
	granted := map[*ballotKind]bool{acquiring: n >= 1, claiming: n == 1, raising: n == 1, renewing: n == 1 || n == 2, releasing: n >= 0 && n <= 3}
	refused := map[*ballotKind]bool{acquiring: n == -1, raising: n == 0, renewing: n == 0}
	switch {
	case granted[kind]:
		return Granted
	case refused[kind]:
		return Refused
	}
	return Unknown
}

// isHolder reports whether a reply is {holder, milliseconds} or {holder, milliseconds,
// place, clients ahead, 0 or 1}.
func isHolder(reply []any) bool {
	if len(reply) != 2 && len(reply) != 5 {
		return false
	}
	_, is := reply[0].([]byte)
	for _, n := range reply[1:] {
		_, number := n.(int64)
		is = is && number
	}
	if is && len(reply) == 5 && reply[4] != int64(0) && reply[4] != int64(1) {
		return false
	}
	return is && reply[1].(int64) <= 1000*maxTTL.Milliseconds()
}

func requireUnderstood(t *testing.T, kind *ballotKind, reply any) {
	if refusal, is := reply.(redis.Error); is {
		for _, err := range []error{refusal, errors.Join(pipe.ErrNotSent, refusal)} {
			a := kind.Read(nil, nil, err)
			require.Equal(t, quorum.NoAnswer, a.Count)
			require.Contains(t, []quorum.Outcome{quorum.Refused, quorum.NotSent}, a.Outcome)
			require.Error(t, a.Cause)
		}
	}
	a := kind.Read(nil, reply, nil)
	require.Equal(t, sense(kind, reply), Outcome(a.Outcome), "%s: %#v", kind.op, reply)
	require.Equal(t, a.Outcome == quorum.Confirmed, a.Count == quorum.Yes || a.Count == quorum.Recreated || a.Count == quorum.NotFound)
	if a.Count == quorum.NoAnswer {
		require.Error(t, a.Cause)
	}
	require.True(t, a.Remaining >= 0 || a.Remaining == endless)
	require.Equal(t, a.Outcome == quorum.Confirmed && kind == acquiring, a.Token > 0)
}

// unconnected is a client of one node, without any goroutine or connection.
func unconnected(t *testing.T) *Client {
	opts, err := defaultOptions().with([]Option{WithLogger(nil)})
	require.NoError(t, err)
	c := &Client{opts: opts, cluster: quorum.Cluster{Need: 1, Clock: opts.clock}}
	c.opts.events = notify.NewQueue(opts.logger, false)
	c.newGroup([]Pool{refusingPool{}})
	c.line = newLine(c, len(c.nodes))
	return c
}

// requireCallsDoNoHarm takes a reply, or its last part, as a wake-up's text.
func requireCallsDoNoHarm(c *Client, reply any) {
	w := &waiter{mutex: c.Mutex("x"), ticket: "ticket", wake: make(chan struct{}, 1)}
	c.line.waiters["ticket"] = w
	if parts := testreply.Values(reply); len(parts) > 0 {
		reply = parts[len(parts)-1]
	}
	c.line.Subscribed(0, true)
	text, _ := redis.String(reply, nil)
	c.line.Message(0, text)
}

func requireInspected(t *testing.T, reply any) {
	s := Status{Nodes: make([]NodeStatus, 1)}
	if err := s.Nodes[0].understand(reply, nil); err != nil {
		require.Empty(t, s.Nodes[0].Holder+s.Nodes[0].Reserved)
		require.NotContains(t, err.Error(), "%!")
	}
	s.sum(1)
}
