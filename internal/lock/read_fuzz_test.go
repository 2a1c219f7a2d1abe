package lock

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testreply"
)

// A reply is understood as one of those that the scripts give, or not at all.
func FuzzReply(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		for _, r := range []*reader{acquiring, claiming, raising, renewing, releasing, pinging} {
			requireUnderstood(t, r, replies[0])
		}
		requireWakeUpsDoNoHarm(t, replies[0])
	}, refusedWith("n"), refusedWith("nud750c"), refusedWith("d"), refusedWith("x"), refusedWith(""))
}

// refusedWith is a waiter's refusal with these flags.
func refusedWith(flags string) []any {
	return []any{[]any{[]byte("owner"), int64(9), int64(7), []byte(flags)}}
}

// meaning returns what a reply means by the scripts' own comments.
func meaning(r *reader, reply any) quorum.Outcome {
	n, number := reply.(int64)
	held := isHolder(testreply.Values(reply))
	if r == pinging {
		text, _ := reply.([]byte)
		return map[bool]quorum.Outcome{true: quorum.Confirmed, false: quorum.Unknown}[string(text) == "looked"]
	}
	switch {
	case held && r != raising && r != releasing:
		return quorum.Refused
	case !number:
		return quorum.Unknown
	}
	confirmed := map[*reader]bool{acquiring: n >= 1, claiming: n == 1, raising: n == 1, renewing: n == 1 || n == 2 || n == 11 || n == 12, releasing: n >= 0 && n <= 4}
	refused := map[*reader]bool{acquiring: n == -1, raising: n == 0, renewing: n == 0}
	switch {
	case confirmed[r]:
		return quorum.Confirmed
	case refused[r]:
		return quorum.Refused
	}
	return quorum.Unknown
}

// refusalFlags are the flags of a refusal, of which one has milliseconds.
var refusalFlags = regexp.MustCompile(`^[nuc]*(d\d{1,9}[nuc]*)*$`)

// isHolder reports whether a reply is {holder, milliseconds} or {holder, milliseconds, position, flags}.
func isHolder(reply []any) bool {
	if len(reply) != 2 && len(reply) != 4 {
		return false
	}
	_, is := reply[0].([]byte)
	for _, n := range reply[1:min(len(reply), 3)] {
		_, number := n.(int64)
		is = is && number
	}
	if len(reply) == 4 {
		flags, text := reply[3].([]byte)
		is = is && text && refusalFlags.Match(flags)
	}
	return is && reply[1].(int64) <= int64(system.Forever/time.Millisecond)
}

func requireUnderstood(t *testing.T, r *reader, reply any) {
	if refusal, is := reply.(redis.Error); is {
		for _, err := range []error{refusal, errors.Join(pipe.ErrNotSent, refusal)} {
			a := r.Read(nil, nil, err)
			require.Equal(t, quorum.NoAnswer, a.Count)
			require.Contains(t, []quorum.Outcome{quorum.Refused, quorum.NotSent}, a.Outcome)
			require.Error(t, a.Cause)
		}
	}
	a := r.Read(nil, reply, nil)
	require.Equal(t, meaning(r, reply), a.Outcome, "%s: %#v", r.op, reply)
	require.Equal(t, a.Outcome == quorum.Confirmed, a.Count == quorum.Yes || a.Count == quorum.Recreated || a.Count == quorum.NotFound)
	if a.Count == quorum.NoAnswer {
		require.Error(t, a.Cause)
	}
	require.True(t, a.Remaining >= 0 || a.Remaining == protocol.Endless)
	require.Equal(t, a.Outcome == quorum.Confirmed && r == acquiring, a.Token > 0)
}

// requireWakeUpsDoNoHarm takes a reply, or its last part, as a wake-up's text. The samples name
// the ticket "ticket".
func requireWakeUpsDoNoHarm(t *testing.T, reply any) {
	x := unconnected()
	q := x.engine.Queue()
	w, err := q.NewWaiter(t.Context(), x.WaitedFor(), 0)
	require.NoError(t, err)
	defer w.Leave()
	if parts := testreply.Values(reply); len(parts) > 0 {
		reply = parts[len(parts)-1]
	}
	q.Subscribed(0, true)
	text, _ := redis.String(reply, nil)
	q.Message(0, strings.ReplaceAll(text, "ticket", w.Ticket()))
}
