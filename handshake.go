package redlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// identity is what a handshake learns about the server.
type identity struct {
	runID  string // names one run of the server process; "" if it does not tell
	client int64  // this connection's id there; 0 if it does not tell
	role   string
	evicts string // maxmemory_policy
	major  int    // of redis_version; 0 if it does not tell
}

// connect dials, shakes hands and starts the pipe. late is called when dialling
// takes longer than it may, while it goes on.
func (n *node) connect(ctx context.Context, late func()) (*pipe.Pipe, error) {
	conn, err := n.dial(ctx, func() {
		err := fmt.Errorf("cannot connect: no connection within %v", n.patience)
		n.setDown(err)
		n.isDown(err)
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
	prelude := n.endOfOld(id)
	n.last = id
	n.merges.Store(id.major >= 7)
	if err := n.admit(p, prelude...); err != nil {
		p.Kill(err)
		<-p.Done()
		return nil, fmt.Errorf("disconnected: %w", err)
	}
	return p, nil
}

// dial gets a connection from the pool. A pool may have no timeouts and may not
// heed ctx: then dialling can hang with the server, and there is never more
// than one such dial.
func (n *node) dial(ctx context.Context, late func()) (redis.Conn, error) {
	type dialled struct {
		conn redis.Conn
		err  error
	}
	dialCtx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	got := make(chan dialled, 1)
	go func() {
		conn, err := n.pool.GetContext(dialCtx)
		if err == nil && conn == nil {
			err = &misfitError{"the pool returned no connection and no error"}
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

// handshake loads the scripts, asks the server who it is, and decides whether
// it may vote.
func (n *node) handshake(ctx context.Context, conn redis.Conn) (identity, error) {
	var id identity
	if err := suitable(conn); err != nil {
		return id, n.misfit(err.Error())
	}
	began := n.opts.clock()
	replies, err := n.ask(ctx, conn)
	if err != nil {
		return id, fmt.Errorf("handshake failed: %w", err)
	}
	for _, r := range replies[:len(allScripts)] {
		if r.err != nil {
			return id, fmt.Errorf("handshake failed: scripts cannot be loaded: %w", r.err)
		}
	}
	id.client, _ = redis.Int64(replies[len(allScripts)].value, nil)
	if now, err := understandTime(replies[len(allScripts)+2].value, replies[len(allScripts)+2].err); err == nil {
		n.offset.note(now, began, n.opts.clock())
	}
	info, err := redis.String(replies[len(allScripts)+1].value, replies[len(allScripts)+1].err)
	if err == nil {
		id.read(info)
	}
	return id, n.judge(id, err)
}

// ask sends the handshake's commands at once and collects their replies. An
// error reply is part of the answer; a broken connection is an error. It ends
// with ctx.
func (n *node) ask(ctx context.Context, conn redis.Conn) ([]reply, error) {
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
	deadline := n.opts.clock() + n.patience
	commands := [][]any{}
	for _, s := range allScripts {
		commands = append(commands, []any{"SCRIPT", "LOAD", s.text})
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
	replies := make([]reply, len(commands))
	for i := range replies {
		left := max(deadline-n.opts.clock(), time.Millisecond)
		value, err := redis.ReceiveWithTimeout(conn, left)
		var refusal redis.Error
		if err != nil && !errors.As(err, &refusal) {
			return nil, err
		}
		replies[i] = reply{value, err}
	}
	return replies, nil
}

type reply struct {
	value any
	err   error
}

// judge decides whether the server may vote, and logs hazards. noInfo is why
// the server does not tell who it is, if so.
func (n *node) judge(id identity, noInfo error) error {
	if id.role == "slave" {
		n.peers.claim(n.index, "")
		return n.misfit("it is a replica; only masters vote: give the pool the master's address")
	}
	if other, ok := n.peers.claim(n.index, id.runID); !ok {
		return n.misfit(fmt.Sprintf("it is the same server as node %d; every pool must lead to a server of its own", other))
	}
	switch {
	case noInfo != nil:
		n.tell(fmt.Sprintf("the server does not answer INFO, so a replica, a server given twice, or a restart with old data goes unnoticed: %v", noInfo))
	case id.evicts != "" && id.evicts != "noeviction":
		n.tell(fmt.Sprintf("the server may evict locks under memory pressure: set maxmemory-policy noeviction, not %s", id.evicts))
	default:
		n.told = ""
	}
	return nil
}

// misfit is a node that cannot vote until a person acts.
func (n *node) misfit(what string) error {
	n.tell("the node does not vote: " + what)
	return &misfitError{what}
}

// tell logs a problem, but not the same one again and again.
func (n *node) tell(problem string) {
	if n.told == problem {
		return
	}
	n.told = problem
	n.opts.herald.log(slog.LevelWarn, problem, "node", n.name)
}

// endOfOld kills the node's previous connections at the server, if that is still
// the same run of it: bytes that are on their way there must not be executed
// after the debts were paid. (A client id of another run would be somebody
// else's.) Each is named until the server has confirmed.
func (n *node) endOfOld(now identity) []*pipe.Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.runID == "" || n.last.runID != now.runID {
		clear(n.zombies)
		return nil
	}
	if n.last.client != 0 {
		n.zombies[n.last.client] = true
	}
	var kills []*pipe.Call
	for _, id := range slices.Sorted(maps.Keys(n.zombies)) {
		kills = append(kills, &pipe.Call{Command: "CLIENT", Args: []any{"KILL", "ID", id}, To: &killed{n, id}})
	}
	return kills
}

// killed receives the answer to CLIENT KILL. That there is no such connection is
// as good.
type killed struct {
	node *node
	id   int64
}

func (k *killed) Receive(_ any, err error) {
	var refusal redis.Error
	if err == nil || errors.As(err, &refusal) {
		k.node.mu.Lock()
		defer k.node.mu.Unlock()
		delete(k.node.zombies, k.id)
	}
}

// suitable tells whether a connection can be shared and cut.
func suitable(conn redis.Conn) error {
	_, timeouts := conn.(redis.ConnWithTimeout)
	_, contexts := conn.(redis.ConnWithContext)
	if !timeouts || !contexts {
		return fmt.Errorf("its connections (%T) must implement redis.ConnWithTimeout and redis.ConnWithContext, as redigo's do", conn)
	}
	return nil
}

// read takes what matters from the answer to INFO.
func (id *identity) read(info string) {
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch key {
		case "run_id":
			id.runID = value
		case "redis_version":
			major, _, _ := strings.Cut(value, ".")
			id.major, _ = strconv.Atoi(major)
		case "role":
			id.role = value
		case "maxmemory_policy":
			id.evicts = value
		}
	}
}

// registry knows which server answers behind which node, so that one server
// under two nodes has one vote.
type registry struct {
	mu    sync.Mutex     // protects owner
	owner map[string]int // node index by run id
}

// claim takes a server for a node, which gives up the one it had. ok is false
// when another node has it. An unknown server ("") cannot be compared.
func (r *registry) claim(index int, runID string) (other int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, i := range r.owner {
		if i == index {
			delete(r.owner, id)
		}
	}
	if runID == "" {
		return 0, true
	}
	if other, taken := r.owner[runID]; taken {
		return other, false
	}
	r.owner[runID] = index
	return 0, true
}

// advise adds what to do to an error that a person must act on.
func advise(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	switch {
	case isCode(err, "NOPERM"):
		return fmt.Errorf("%w (grant the user the commands listed in the README, on the locks' keys)", err)
	case isCode(err, "OOM"):
		return fmt.Errorf("%w (the server is full: raise maxmemory)", err)
	case isCode(err, "READONLY"):
		return fmt.Errorf("%w (it is a replica; give the pool the master's address)", err)
	case isCode(err, "WRONGTYPE"):
		return fmt.Errorf("%w (the lock's key is used for something else: choose another name or prefix)", err)
	case permanent(err):
		return fmt.Errorf("%w (check the user and the password)", err)
	}
	return err
}
