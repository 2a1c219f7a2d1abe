package redlock

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
)

// A reply is understood as one of those that the scripts give, or not at all.
func FuzzReply(f *testing.F) {
	for _, reply := range []any{
		nil, int64(0), int64(1), int64(2), int64(3), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), "PONG", []byte("owner"),
		[]any{}, []any{nil}, []any{[]byte("owner"), int64(1500)}, []any{[]byte("owner"), int64(-1), int64(7)},
		[]any{[]byte("owner"), int64(math.MaxInt64)}, redis.Error("OOM command not allowed"), redis.Error(""), redis.Error("NOSCRIPT"),
		[]any{[]byte("whole"), []byte("redlock::record:run:name"), []byte("1"), int64(10000)}, []any{[]byte("whole"), nil, []byte("1"), int64(-1)},
		[]any{[]byte("barred"), []byte("name"), int64(5000), int64(10000)}, []any{[]byte("barred"), []byte("name"), int64(0), int64(math.MaxInt64)},
		[]any{[]byte("barred"), []byte("name"), int64(1), int64(10000)}, []any{[]byte("format"), []byte("2")}, []any{[]byte("message")},
		[]any{[]byte("subscribe"), []byte("channel"), int64(1)}, []any{[]byte("message"), []byte("channel"), []byte("ready ticket key")},
		[]any{[]byte("message"), nil, []byte("near ticket")}, []any{[]byte("message"), []byte("c"), redis.Error("ready")},
		[]any{[]byte("owner"), int64(5), []byte("42"), []any{[]byte("0001-id-1"), []byte("label"), []byte("odd")}},
		[]any{[]byte("1700000000"), []byte("999999")}, []any{[]byte("1"), []byte("2"), []byte("3")},
	} {
		f.Add(planted(nil, reply))
	}
	admitted := planted(nil, []any{[]byte("barred"), []byte("name"), int64(0), int64(math.MaxInt64)}) // then what refill asks
	for _, reply := range []any{[]byte("older"), []any{[]byte("7"), []byte("12")}, []any{[]byte("1"), []byte("2")}, int64(1),
		[]any{[]byte("whole"), []byte("record"), []byte("1"), int64(1000)}} {
		admitted = planted(admitted, reply)
	}
	f.Add(admitted)
	f.Fuzz(func(t *testing.T, data []byte) {
		var replies []any
		for len(data) > 0 && len(replies) < 16 {
			replies = append(replies, grown(&data, 0))
		}
		if len(replies) == 0 {
			return
		}
		for _, kind := range []*ballotKind{acquiring, claiming, raising, renewing, releasing, pinging} {
			requireUnderstood(t, kind, replies[0])
		}
		c := unconnected(t)
		requireCallsDoNoHarm(c, replies[0])
		requireInspected(t, replies[0])
		if _, err := understandTime(replies[0], nil); err != nil {
			require.NotContains(t, err.Error(), "%!")
		}
		requireAdmittedOnlyWhole(t, c.nodes[0], replies)
	})
}

// sense is what a reply means, told by the scripts' own comments.
func sense(kind *ballotKind, reply any) Outcome {
	n, number := reply.(int64)
	held := isHolder(asValues(reply))
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

// isHolder tells {holder, milliseconds} and {holder, milliseconds, place}.
func isHolder(reply []any) bool {
	if len(reply) != 2 && len(reply) != 3 {
		return false
	}
	_, is := reply[0].([]byte)
	for _, n := range reply[1:] {
		_, number := n.(int64)
		is = is && number
	}
	return is && reply[1].(int64) <= 1000*maxTTL.Milliseconds()
}

func asValues(reply any) []any {
	values, _ := reply.([]any)
	return values
}

func requireUnderstood(t *testing.T, kind *ballotKind, reply any) {
	if refusal, is := reply.(redis.Error); is {
		for _, err := range []error{refusal, errors.Join(pipe.ErrNotSent, refusal)} {
			a := understand(kind, nil, err)
			require.Equal(t, silent, a.voice)
			require.Contains(t, []Outcome{Refused, NotSent}, a.outcome)
			require.Error(t, a.cause)
		}
	}
	a := understand(kind, reply, nil)
	require.Equal(t, sense(kind, reply), a.outcome, "%s: %#v", kind.op, reply)
	require.Equal(t, a.outcome == Granted, a.voice == mine || a.voice == restored || a.voice == absent)
	if a.voice == silent {
		require.Error(t, a.cause)
	}
	require.True(t, a.remaining >= 0 || a.remaining == endless)
	require.Equal(t, a.outcome == Granted && kind == acquiring, a.token > 0)
}

// unconnected is a client of one node, without any goroutine or connection.
func unconnected(t *testing.T) *Client {
	opts, err := defaultOptions().with([]Option{WithLogger(nil)})
	require.NoError(t, err)
	c := &Client{opts: opts, quorum: 1}
	c.opts.herald = newHerald(opts.logger, false)
	group := &peers{registry: registry{owner: make(map[string]int)}, nodes: 1, quorum: 1}
	c.nodes = []*node{newNode(0, "node", refusingPool{}, &c.opts, group)}
	group.all = c.nodes
	c.line = newLine(c, len(c.nodes))
	return c
}

func requireCallsDoNoHarm(c *Client, reply any) {
	w := &waiter{mutex: c.Mutex("x"), ticket: "ticket", wake: make(chan struct{}, 1)}
	c.line.waiters["ticket"] = w
	c.nodes[0].understandCall(c.line, asValues(reply))
}

func requireInspected(t *testing.T, reply any) {
	s := Status{Nodes: make([]NodeStatus, 1)}
	if err := s.Nodes[0].understand(reply, nil); err != nil {
		require.Empty(t, s.Nodes[0].Holder+s.Nodes[0].Reserved)
		require.NotContains(t, err.Error(), "%!")
	}
	s.sum(1)
}

// requireAdmittedOnlyWhole gives the replies to all that admission asks, in turn.
func requireAdmittedOnlyWhole(t *testing.T, n *node, replies []any) {
	conn := &canned{replies: replies, asked: make(chan struct{}, 100)}
	p := pipe.New(conn)
	defer p.Kill(ErrClosed)
	n.newAdmission(p).step(t.Context())
	st := n.standing.Load()
	switch {
	case st == nil: // it does not stand anywhere yet
	case st.votes:
		require.True(t, conn.saidWhole, "%#v", replies)
	default:
		require.Error(t, st.why)
	}
}

// planted appends a reply's tree to bytes from which it can be grown.
func planted(to []byte, reply any) []byte {
	text := func(kind byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(append(to, kind), uint16(len(s))), s...)
	}
	switch reply := reply.(type) {
	case int64:
		return binary.BigEndian.AppendUint64(append(to, 1), uint64(reply))
	case string:
		return text(2, reply)
	case []byte:
		return text(3, string(reply))
	case redis.Error:
		return text(4, string(reply))
	case []any:
		to = append(to, 5, byte(len(reply)))
		for _, part := range reply {
			to = planted(to, part)
		}
		return to
	}
	return append(to, 0)
}

// grown is the reply that the bytes begin with.
func grown(data *[]byte, depth int) any {
	take := func(n int) []byte {
		n = min(n, len(*data))
		part := (*data)[:n]
		*data = (*data)[n:]
		return part
	}
	number := func(n int) (value uint64) {
		for _, b := range take(n) {
			value = value<<8 | uint64(b)
		}
		return value
	}
	switch kind := number(1); kind % 6 {
	case 1:
		return int64(number(8))
	case 2:
		return string(take(int(number(2))))
	case 3:
		return append([]byte{}, take(int(number(2)))...)
	case 4:
		return redis.Error(take(int(number(2))))
	case 5:
		parts := make([]any, number(1)%16)
		for i := range parts {
			if depth < 4 {
				parts[i] = grown(data, depth+1)
			}
		}
		return parts
	}
	return nil
}

// canned is a connection to a server that gives the same replies to whatever is
// asked, in turn, and then breaks.
type canned struct {
	replies   []any
	given     int
	saidWhole bool
	asked     chan struct{}
	cut       sync.Once
}

func (c *canned) Send(string, ...any) error                                { c.asked <- struct{}{}; return nil }
func (c *canned) Flush() error                                             { return nil }
func (c *canned) Err() error                                               { return nil }
func (c *canned) Close() error                                             { return nil }
func (c *canned) Do(string, ...any) (any, error)                           { return nil, errRefused }
func (c *canned) Receive() (any, error)                                    { return nil, errRefused }
func (c *canned) DoContext(context.Context, string, ...any) (any, error)   { return nil, errRefused }
func (c *canned) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errRefused }

// ReceiveContext is how a pipe is cut.
func (c *canned) ReceiveContext(context.Context) (any, error) {
	c.cut.Do(func() { close(c.asked) })
	return nil, errRefused
}

func (c *canned) ReceiveWithTimeout(time.Duration) (any, error) {
	if _, more := <-c.asked; !more || c.given == 40 {
		return nil, errRefused
	}
	reply := c.replies[c.given%len(c.replies)]
	c.given++
	if refusal, is := reply.(redis.Error); is {
		return nil, refusal
	}
	if parts := asValues(reply); len(parts) > 0 {
		word, _ := redis.String(parts[0], nil)
		c.saidWhole = c.saidWhole || word == "whole"
	}
	return reply, nil
}
