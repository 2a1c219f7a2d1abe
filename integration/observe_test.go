package integration

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// Candidates and followers in processes of their own, on real servers. Each says what it sees, and when.

func openObserver(urls string) (*redlock.Client, error) {
	return testclient.OpenInProcess(context.Background(), strings.Split(urls, ","), redlock.WithTTL(tokensTTL),
		redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRestartGuard(tokensTTL))
}

// beCandidate is the job of a process that stands for leader. It says "leads", the instant, its owner and its term. The parent has
// it resign, or transfer its lease.
func beCandidate(args []string, lines <-chan string, say func(string, ...any)) error {
	client, err := openObserver(args[0])
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan string)
	go func() { // ends with the input
		for line := range lines {
			orders <- line
		}
		cancel()
	}()
	err = client.Mutex("office").Lead(ctx, func(ctx context.Context, l *redlock.Lease) error {
		say("leads %d %s %d", time.Now().UnixNano(), l.Owner(), l.Token())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case order := <-orders:
			if order == "resign" {
				return redlock.ErrResign
			}
			text, err := l.Transfer(ctx)
			if err != nil {
				return err
			}
			say("text %s", text)
			return redlock.ErrResign
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// beFollowers is the job of a process with several followers. Each says "sees", its number, the instant, the owner, the term
// and "error" where no quorum answered.
func beFollowers(args []string, lines <-chan string, say func(string, ...any)) error {
	client, err := openObserver(args[0])
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := untilInputEnds(lines)
	defer cancel()
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for h, err := range client.Mutex("office").Observe(ctx) {
				if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
					return
				}
				say("sees %d %d %q %d %t", i, time.Now().UnixNano(), h.Owner, h.Token, err != nil)
			}
		})
	}
	all.Wait()
	return nil
}

// term is a leader that a candidate has been, or the parent.
type term struct {
	at    time.Time
	owner string
	token int64
}

// view is what a follower saw last.
type view struct {
	at    time.Time
	owner string
	token int64
	lost  bool // no quorum answered
}

// election is candidates and followers of one office.
type election struct {
	t          *testing.T
	nodes      cluster.Nodes
	client     *redlock.Client
	candidates []*worker
	followers  []*worker
	views      map[string][]view // by follower
	leader     *worker           // nil: the parent, or nobody
	term       term
	held       map[string]int64     // the terms, by their owners
	delays     map[string][]float64 // milliseconds from a grant until a follower saw it, by what led to it
}

func newElection(t *testing.T, servers, processes, followers int) *election {
	e := &election{t: t, nodes: cluster.Use(t, servers), views: make(map[string][]view), held: make(map[string]int64), delays: make(map[string][]float64)}
	urls := strings.Join(e.nodes.URLs(), ",")
	e.client = openClient(t, e.nodes.URLs(), redlock.WithTTL(tokensTTL), redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRestartGuard(tokensTTL))
	awaitAllVotes(t, e.client, e.nodes)
	for range processes {
		e.followers = append(e.followers, startWorker(t, "followers", urls, strconv.Itoa(followers)))
	}
	for range 3 {
		e.stands()
	}
	e.settle("the first", 2*time.Second)
	return e
}

// stands starts a candidate.
func (e *election) stands() {
	e.candidates = append(e.candidates, startWorker(e.t, "candidate", strings.Join(e.nodes.URLs(), ",")))
}

// read takes what the processes have said.
func (e *election) read() {
	for _, w := range e.candidates {
		for more := true; more; {
			select {
			case line, open := <-w.lines:
				more = open
				var at int64
				var next term
				if n, _ := fmt.Sscanf(line, "leads %d %s %d", &at, &next.owner, &next.token); n == 3 {
					next.at = time.Unix(0, at)
					e.leader, e.term = w, next
					e.held[next.owner] = next.token
				}
				require.False(e.t, strings.HasPrefix(line, "failed"), line)
			default:
				more = false
			}
		}
	}
	for k, w := range e.followers {
		for more := true; more; {
			select {
			case line := <-w.lines:
				var i, at int64
				v := view{}
				_, err := fmt.Sscanf(line, "sees %d %d %q %d %t", &i, &at, &v.owner, &v.token, &v.lost)
				require.NoError(e.t, err, line)
				v.at = time.Unix(0, at)
				name := fmt.Sprint(k, " ", i)
				e.views[name] = append(e.views[name], v)
			default:
				more = false
			}
		}
	}
}

// settle waits until there is a new term, for a time at most, and each follower knows it. It records how long that took.
func (e *election) settle(what string, most time.Duration) {
	e.t.Helper()
	before := e.term.token
	require.True(e.t, eventually(most+soon, func() bool { e.read(); return e.term.token > before }), "%s: nobody leads", what)
	e.known(what)
}

// known waits until each follower knows the present term.
func (e *election) known(what string) {
	e.t.Helper()
	require.True(e.t, eventually(soon, func() bool {
		e.read()
		for _, w := range e.views {
			if last := w[len(w)-1]; last.owner != e.term.owner || last.token != e.term.token || last.lost {
				return false
			}
		}
		return len(e.views) > 0
	}), "%s: followers do not know %v: %v", what, e.term, e.views)
	for _, w := range e.views {
		first := slices.IndexFunc(w, func(v view) bool { return v.owner == e.term.owner && v.token == e.term.token })
		e.delays[what] = append(e.delays[what], max(0, float64(w[first].at.Sub(e.term.at).Microseconds())/1000))
	}
}

// check checks that no follower saw a holder that was none, and that terms only grew.
func (e *election) check() {
	for name, all := range e.views {
		last := int64(0)
		for _, v := range all {
			if v.token > 0 {
				require.Equal(e.t, e.held[v.owner], v.token, "follower %s saw %v", name, v)
				require.GreaterOrEqual(e.t, v.token, last, "follower %s", name)
				last = v.token
			}
		}
	}
}

var evalCalls = regexp.MustCompile(`cmdstat_eval:calls=(\d+)`)

// evals returns how many EVALs the busiest master has executed in a time.
func (e *election) evals(d time.Duration) (most int) {
	for _, n := range e.nodes {
		n.Do(e.t, "CONFIG", "RESETSTAT")
	}
	time.Sleep(d)
	for _, n := range e.nodes {
		info, _ := n.Do(e.t, "INFO", "commandstats").([]byte)
		if found := evalCalls.FindSubmatch(info); found != nil {
			calls, err := strconv.Atoi(string(found[1]))
			require.NoError(e.t, err)
			most = max(most, calls)
		}
	}
	return most
}

func TestFollowersKnowTheLeader(t *testing.T) {
	t.Parallel()
	notInShort(t)
	followLeaders(t, 3, 2, 3, 1)
}

// Three candidates, a hundred followers in ten processes.
func TestSoakFollowersKnowTheLeader(t *testing.T) {
	soakOnly(t)
	followLeaders(t, 5, 10, 10, 5)
}

// followLeaders lets leaders change in each way, for so many rounds.
func followLeaders(t *testing.T, servers, processes, followers, rounds int) {
	e := newElection(t, servers, processes, followers)
	change := func(what string, most time.Duration, do func()) {
		t.Helper()
		do()
		e.settle(what, most)
	}
	minority := e.nodes[:(servers-1)/2]
	for range rounds {
		change("release", 0, func() { e.leader.say(t, "resign") })
		change("kill -9", tokensTTL, func() {
			require.NoError(t, e.leader.cmd.Process.Kill())
			e.stands()
		})
		stopped := e.leader
		change("SIGSTOP", tokensTTL, func() { require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGSTOP)) })
		require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGCONT))
		change("ForceUnlock", 0, func() {
			_, err := e.client.ForceUnlock(within(t, soon), "office")
			require.NoError(t, err)
		})
		change("lost messages", 0, func() {
			for _, n := range e.nodes {
				n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
			e.leader.say(t, "resign")
		})
		e.transfers()
		change("lost majority", tokensTTL, func() {
			others := e.nodes[len(minority):]
			others.Freeze(t)
			require.True(t, eventually(soon, func() bool {
				e.read()
				for _, w := range e.views {
					if !w[len(w)-1].lost {
						return false
					}
				}
				return true
			}), "each follower knows that no majority answers")
			time.Sleep(2 * tokensTTL)
			others.Thaw(t)
		})
		e.nodes[0].Do(t, "FLUSHALL")
		time.Sleep(time.Second)
		e.known("a master wiped")
		change("release without a master", 0, func() { e.leader.say(t, "resign") })
		awaitAllVotes(t, e.client, e.nodes)
	}
	const quiet = 10 * time.Second
	calls := e.evals(quiet)
	t.Logf("%d followers in %d processes: %d EVALs in %v at the busiest master", processes*followers, processes, calls, quiet)
	require.LessOrEqual(t, calls, processes*int(quiet/time.Second+2))
	e.check()
	for _, what := range []string{"the first", "release", "kill -9", "SIGSTOP", "ForceUnlock", "lost messages", "transfer", "lost majority", "a master wiped", "release without a master"} {
		t.Logf("%-26s median %6.1f ms, at most %7.1f ms", what, median(e.delays[what]), slices.Max(e.delays[what]))
	}
}

// transfers has the leader transfer its lease to this process, which then resigns.
func (e *election) transfers() {
	e.t.Helper()
	e.leader.say(e.t, "transfer")
	var text string
	require.True(e.t, eventually(soon, func() bool {
		select {
		case line := <-e.leader.lines:
			text = strings.TrimPrefix(line, "text ")
			return text != line
		default:
			return false
		}
	}), "the leader does not transfer its lease")
	l, err := e.client.Resume(within(e.t, soon), text, redlock.WithAnnounce())
	require.NoError(e.t, err)
	e.leader, e.term = nil, term{time.Now(), l.Owner(), l.Token()}
	e.held[l.Owner()] = l.Token()
	e.known("transfer")
	require.NoError(e.t, l.Unlock(within(e.t, soon)))
	e.settle("release", 0)
}
