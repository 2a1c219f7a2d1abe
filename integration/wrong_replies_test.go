package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// Two of five nodes answer wrongly, at each twentieth or second read. No lock has two holders, and most callers get
// theirs. The replies are wrong, but no lies: docs/safety.md says why no more can be claimed.
func TestWrongRepliesOfAMinorityHarmNobody(t *testing.T) {
	sessions := 2000
	if !long.Tests() {
		sessions = 150
	}
	for _, share := range []float64{0.05, 0.5} {
		t.Run(fmt.Sprintf("%.0f %% of the reads", share*100), func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 5)
			wrong := &wrongness{share: share}
			const guard = 3 * time.Second
			var clients []*redlock.Client
			for range 4 {
				pools := []redlock.Pool{}
				for i, n := range nodes {
					pools = append(pools, redlock.DialPool(wrong.dial(n.Addr(), i < 2), redlock.DialConfig{Addr: n.Addr()}))
				}
				clients = append(clients, newClient(t, pools, shortTimeout(), redlock.WithTTL(10*time.Second), redlock.WithRestartGuard(guard)))
			}
			require.True(t, eventually(soon+10*time.Second, func() bool {
				lease, err := clients[0].Mutex("ready").TryLock(t.Context())
				if err == nil {
					err = lease.Unlock(t.Context())
				}
				return err == nil
			}))
			wrong.on.Store(true)
			crowd := &crowd{t: t, clients: clients}
			peak := peakHeap(t, func() { crowd.run(sessions) })
			t.Logf("%d sessions: %d held, %v; %d reads were wrong, %d lies were left out; heap at most %d MiB", sessions, crowd.held.Load(),
				&crowd.kinds, wrong.mutated.Load(), wrong.lies.Load(), peak>>20)
			require.Greater(t, crowd.held.Load(), int64(sessions/2), "three nodes are well")
			require.Positive(t, wrong.mutated.Load())
			require.Less(t, peak, uint64(256<<20))
		})
	}
}

// crowd are callers of all primitives, with few names.
type crowd struct {
	t       *testing.T
	clients []*redlock.Client
	held    atomic.Int64
	kinds   counts

	mu      sync.Mutex // protects holders
	holders map[*redlock.Lease]*holding
}

// counts are of sessions that held, by kind.
type counts struct{ sync.Map }

func (c *counts) add(kind string) {
	n, _ := c.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

func (c *counts) String() string {
	var all []string
	c.Range(func(kind, n any) bool {
		all = append(all, fmt.Sprintf("%v %d", kind, n.(*atomic.Int64).Load()))
		return true
	})
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// holding is what a session holds.
type holding struct {
	names  []string
	shared bool
}

const crowdPermits = 3

func (c *crowd) run(sessions int) {
	c.holders = make(map[*redlock.Lease]*holding)
	var all sync.WaitGroup
	next := atomic.Int64{}
	for range 12 {
		all.Go(func() {
			for next.Add(1) <= int64(sessions) {
				c.session(c.clients[rand.IntN(len(c.clients))])
			}
		})
	}
	all.Wait()
}

// session takes a lock of a kind, holds it for a moment, and gives it back.
func (c *crowd) session(client *redlock.Client) {
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	defer cancel()
	names := []string{"a", "b", "c"}
	name := names[rand.IntN(len(names))]
	var lease *redlock.Lease
	var err error
	h := &holding{names: []string{name}}
	kind := []string{"lock", "try", "write", "read", "multi", "permits", "downgrade", "transfer"}[rand.IntN(8)]
	switch kind {
	case "lock", "transfer":
		lease, err = client.Mutex(name).Lock(ctx)
	case "try":
		lease, err = client.Mutex(name).TryLock(ctx)
	case "write", "downgrade":
		lease, err = client.RWMutex(name).Lock(ctx)
	case "read":
		h.shared = true
		lease, err = client.RWMutex(name).RLock(ctx)
	case "multi":
		h.names = names[rand.IntN(2):]
		lease, err = client.Multi(h.names).Lock(ctx)
	case "permits":
		h.names = nil
		lease, err = client.Semaphore("s", crowdPermits).Acquire(ctx, 1+rand.IntN(2))
		if err == nil {
			for _, slot := range lease.Slots() {
				h.names = append(h.names, "s#"+strconv.Itoa(slot))
			}
		}
	}
	if err != nil {
		return
	}
	c.held.Add(1)
	c.kinds.add(kind)
	c.enter(lease, h)
	time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	_ = lease.Extend(ctx) // a node may refuse it
	switch kind {
	case "downgrade":
		c.share(h)
		_ = lease.Downgrade(ctx)
	case "transfer":
		c.leave(lease)
		if text, err := lease.Transfer(ctx); err == nil {
			if lease, err = c.clients[rand.IntN(len(c.clients))].Resume(ctx, text); err != nil {
				return
			}
			c.enter(lease, h)
		}
	}
	c.leave(lease)
	_ = lease.Unlock(ctx) // the nodes that did not confirm get it again
}

// enter records a holder, and checks that no other one is valid at the same time.
func (c *crowd) enter(lease *redlock.Lease, h *holding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, its := range c.holders {
		conflict := !(h.shared && its.shared) && slices.ContainsFunc(h.names, func(n string) bool { return slices.Contains(its.names, n) })
		if conflict && other.Valid() && lease.Valid() {
			assert.Failf(c.t, "two holders", "%v (shared %v) of %s, and %v (shared %v) of %s", h.names, h.shared, lease.Owner(), its.names, its.shared, other.Owner())
		}
	}
	c.holders[lease] = h
}

func (c *crowd) share(h *holding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.shared = true
}

func (c *crowd) leave(lease *redlock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holders, lease)
}

// peakHeap returns the largest heap while f runs.
func peakHeap(t *testing.T, f func()) (peak uint64) {
	t.Helper()
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-watched
	return peak
}

// wrongness is how the replies of some servers are wrong.
type wrongness struct {
	share         float64 // of the reads
	on            atomic.Bool
	mutated, lies atomic.Int64
}

func (w *wrongness) dial(addr string, wrong bool) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		socket, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil || !wrong {
			return socket, err
		}
		return &wrongConn{Conn: socket, by: w, replies: bufio.NewReader(socket)}, nil
	}
}

// wrongConn is a connection over which some reads bring wrong replies.
type wrongConn struct {
	net.Conn
	by      *wrongness
	replies *bufio.Reader
	rest    []byte // was read from the socket and not yet by the client
	silent  bool   // a reply has begun, and its end does not come
}

func (c *wrongConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && c.silent {
		_, err := io.Copy(io.Discard, c.replies)
		if err == nil {
			err = io.EOF
		}
		return 0, err
	}
	if len(c.rest) == 0 {
		var whole []value
		for len(whole) == 0 || c.replies.Buffered() > 0 {
			v, text, err := readValue(c.replies)
			if err != nil {
				return 0, err
			}
			c.rest = append(c.rest, text...)
			whole = append(whole, v)
		}
		if c.by.on.Load() && rand.Float64() < c.by.share {
			c.mutate(whole)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// mutate makes the replies wrong. It draws again where that would make a vote of a server that gave another one.
func (c *wrongConn) mutate(whole []value) {
	for {
		text := spoil(slices.Clone(c.rest))
		lie, ends := compare(whole, text)
		if lie {
			c.by.lies.Add(1)
			continue
		}
		c.by.mutated.Add(1)
		c.rest, c.silent = text, ends
		return
	}
}

// spoil changes a text, in one to three places.
func spoil(text []byte) []byte {
	hostile := []string{"*9223372036854775807\r\n", "$9223372036854775807\r\n", "$99999999999999\r\n", "*2147483647\r\n", "$67108864\r\n", "*1048576\r\n",
		strings.Repeat("*1\r\n", 100_000), "+" + strings.Repeat("x", 1<<20), "HTTP/1.1 400 Bad Request\r\n", "-ERR no\r\n", "+OK\r\n", ":1\r\n", "\r\n", "\x00"}
	for range 1 + rand.IntN(3) {
		at := rand.IntN(len(text) + 1)
		to := min(at+1+rand.IntN(8), len(text))
		switch rand.IntN(7) {
		case 0:
			text = append(text[:at], text[to:]...)
		case 1:
			text = slices.Insert(text, at, text[at:to]...)
		case 2:
			text = slices.Insert(text, at, []byte(hostile[rand.IntN(len(hostile))])...)
		case 3:
			text = text[:at]
		default:
			for i := at; i < to; i++ {
				text[i] = []byte("+-:$*0123456789\r\n\x00x")[rand.IntN(19)]
			}
		}
	}
	return text
}

// compare reports whether a client can take the text for replies that say something else: a whole number or a nil at another place,
// or further replies, which it takes for answers to its next commands. ends is set if the last reply is not whole, or replies
// are missing: what comes behind it would answer another command.
func compare(whole []value, text []byte) (lie, ends bool) {
	r := bufio.NewReader(strings.NewReader(string(text)))
	for i := 0; ; i++ {
		v, _, err := readValue(r)
		switch {
		case errors.Is(err, errBad):
			return false, true
		case err != nil:
			return false, i < len(whole) || err != io.EOF
		case i >= len(whole), !v.isHonest(whole[i]):
			return true, false
		}
	}
}

// value is a reply.
type value struct {
	kind     byte
	null     bool
	number   string
	elements []value
}

// isHonest reports whether v has only numbers and nils that the server said.
func (v value) isHonest(said value) bool {
	if v.kind == ':' && (said.kind != ':' || v.number != said.number) || v.null && !said.null {
		return false
	}
	for i, e := range v.elements {
		if i >= len(said.elements) && (e.kind == ':' || e.null || len(e.elements) > 0) || i < len(said.elements) && !e.isHonest(said.elements[i]) {
			return false
		}
	}
	return v.kind != '*' || len(v.elements) >= len(said.elements) || said.kind != '*'
}

var errBad = errors.New("no reply")

// readValue reads a reply, and returns its text too. It does not check all that a client does.
func readValue(r *bufio.Reader) (v value, text []byte, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		if len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return v, nil, err
	}
	if len(line) < 3 || !strings.ContainsRune("+-:$*", rune(line[0])) || len(line) > 1<<16 {
		return v, nil, errBad
	}
	v.kind, v.number, text = line[0], string(line[1:len(line)-2]), line
	if v.kind != '$' && v.kind != '*' {
		return v, text, nil
	}
	n, err := strconv.Atoi(v.number)
	v.null = v.number == "-1"
	switch {
	case v.null:
		return v, text, nil
	case err != nil || n < 0 || n > 1<<20:
		return v, nil, errBad
	case v.kind == '$':
		rest := make([]byte, n+2)
		if _, err = io.ReadFull(r, rest); err != nil {
			return v, nil, io.ErrUnexpectedEOF
		}
		return v, append(text, rest...), nil
	}
	for range n {
		e, its, err := readValue(r)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return v, nil, err
		}
		v.elements, text = append(v.elements, e), append(text, its...)
	}
	return v, text, nil
}
