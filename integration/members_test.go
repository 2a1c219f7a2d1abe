package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// redlock members, on real servers, while eight processes lock: each writes its tokens down. The processes are given the
// first list, and none learns of the others but from the masters.

// memberTest is such a test. Servers that are no masters may be started empty.
type memberTest struct {
	*processes
	nodes   cluster.Nodes
	masters []int // now, by their index among the nodes
}

func newMemberTest(t *testing.T, servers int, masters ...int) *memberTest {
	soakOnly(t)
	_, err := buildTool()
	require.NoError(t, err)
	m := &memberTest{nodes: cluster.Use(t, servers), masters: masters}
	m.processes = startProcesses(t, 8, m.nodes.Pick(masters...))
	return m
}

// empty makes a server one that has nothing.
func (m *memberTest) empty(node int) { m.nodes[node].Do(m.t, "FLUSHALL") }

// command is a change by the tool: "add", "remove" or "replace", with nodes.
func (m *memberTest) command(what string, nodes ...int) *exec.Cmd {
	args := []string{"members", what, "--json", "--restart-guard", tokensTTL.String()}
	for _, n := range nodes {
		args = append(args, m.nodes[n].Addr())
	}
	return tool(m.t, m.nodes.Pick(m.masters...).URLs(), args...)
}

// memberStep is what the tool prints of a step.
type memberStep struct {
	Step    string
	Masters []string
	Text    string
}

// run has the tool change the list, and kills it after so many steps, if it is not done by then; 0: never. It returns the last
// step, and whether the tool was killed.
func (m *memberTest) run(cmd *exec.Cmd, steps int) (last memberStep, killed bool) {
	m.t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(m.t, err)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(m.t, cmd.Start())
	count := 0
	for in := bufio.NewScanner(out); in.Scan(); {
		require.NoError(m.t, json.Unmarshal(in.Bytes(), &last))
		m.t.Log(strings.Join(cmd.Args[2:], " "), in.Text())
		if count++; count == steps && last.Step != "done" {
			time.Sleep(rand.N(3 * time.Second))
			killed = cmd.Process.Kill() == nil
		}
	}
	if err := cmd.Wait(); !killed {
		require.NoError(m.t, err, log.String())
	}
	return last, killed && last.Step != "done"
}

// become has the tool change the list, and expects these masters.
func (m *memberTest) become(masters []int, what string, nodes ...int) {
	m.t.Helper()
	began := time.Now()
	last, _ := m.run(m.command(what, nodes...), 0)
	m.masters = masters
	m.requireMasters(last)
	m.goesOn(fmt.Sprint(what, nodes))
	m.t.Logf("%s %v took %v", what, nodes, time.Since(began))
}

func (m *memberTest) requireMasters(last memberStep) {
	m.t.Helper()
	require.Equal(m.t, "done", last.Step)
	var names []string
	for _, i := range m.masters {
		names = append(names, m.nodes[i].Addr())
	}
	require.ElementsMatch(m.t, names, last.Masters)
}

// replaced returns the masters with another one in the place of one.
func (m *memberTest) replaced(from, to int) []int {
	after := slices.Clone(m.masters)
	after[slices.Index(after, from)] = to
	return after
}

// Each operation; leases are held through those that have all masters up.
func TestSoakMastersChangeByCommandWhileProcessesLock(t *testing.T) {
	t.Parallel()
	m := newMemberTest(t, 6, 0, 1, 2)
	client := openGuarded(t, m.nodes[:3].URLs(), redlock.WithNodeTimeout(200*time.Millisecond))
	held, err := client.Mutex("held").Lock(within(t, patience))
	require.NoError(t, err)
	become := func(masters []int, what string, nodes ...int) {
		t.Helper()
		m.become(masters, what, nodes...)
		require.NoError(t, held.Err())
	}
	become(m.replaced(2, 3), "replace", 2, 3)
	m.nodes[3].Kill(t)
	m.goesOn("one is dead")
	become(m.replaced(3, 4), "replace", 3, 4)
	m.nodes[3].Start(t)
	m.empty(2)
	become([]int{0, 1, 4, 2}, "add", 2)
	become([]int{0, 1, 4, 2, 3}, "add", 3)
	become([]int{1, 4, 2, 3}, "remove", 0)
	become([]int{1, 4, 3}, "remove", 2)
	become([]int{4, 3}, "remove", 1)
	become([]int{3}, "remove", 4)
	for _, n := range []int{0, 1, 2, 4} {
		m.empty(n)
	}
	become([]int{3, 0}, "add", 0)
	become([]int{3, 0, 1}, "add", 1)
	for i, n := range []int{2, 4, 5} {
		become(m.replaced([]int{3, 0, 1}[i], n), "replace", []int{3, 0, 1}[i], n)
	}
	require.NoError(t, held.Unlock(t.Context()))
	for _, wait := range m.finish() {
		assert.Less(t, wait, 2*time.Second)
	}
}

// The tool is killed after each of its steps. Then it is run again, or another change is begun.
func TestSoakMembersGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	m := newMemberTest(t, 5, 0, 1, 2)
	spare := []int{3, 4}
	for _, again := range []bool{true, false} {
		for steps := 1; ; steps++ {
			from, to := m.masters[0], spare[0]
			m.empty(to)
			_, killed := m.run(m.command("replace", from, to), steps)
			m.goesOn("the tool was killed")
			after := m.replaced(from, to)
			if killed && !again {
				m.empty(spare[1])
				m.run(m.command("add", spare[1]), 0)
				m.become(append(slices.Clone(after), spare[1]), "replace", from, to)
				m.become(after, "remove", spare[1])
			} else {
				m.become(after, "replace", from, to)
			}
			spare[0] = from
			if !killed {
				break
			}
		}
	}
	m.finish()
}

// Two tools change the list at once: each change is made, one after the other.
func TestSoakTwoChangesOfMembersAtOnce(t *testing.T) {
	t.Parallel()
	m := newMemberTest(t, 7, 0, 1, 2)
	var both sync.WaitGroup
	for _, pair := range [][2]int{{0, 3}, {1, 4}} {
		cmd := m.command("replace", pair[0], pair[1])
		both.Go(func() {
			out, err := cmd.Output()
			assert.NoError(t, err)
			assert.Contains(t, string(out), `"done"`)
		})
	}
	both.Wait()
	m.masters = []int{2, 3, 4}
	last, _ := m.run(m.command("add", 5), 0)
	m.masters = []int{2, 3, 4, 5}
	m.requireMasters(last)
	m.goesOn("two tools")
	m.finish()
}

// Processes that are stopped through two changes, and one that is started with the first list afterwards. Then all servers of
// one's settings are gone.
func TestSoakClientsComeBackAfterTwoChangesOfMembers(t *testing.T) {
	t.Parallel()
	m := newMemberTest(t, 6, 0, 1, 2)
	settings := m.nodes[:3]
	var asleep []*worker
	for _, w := range m.all[:4] {
		require.True(t, eventually(patience, func() bool {
			require.NoError(t, cluster.FreezeProcess(w.cmd.Process))
			if !eventually(200*time.Millisecond, func() bool { return !m.isInside() }) { // else the others would wait for it
				require.NoError(t, cluster.ThawProcess(w.cmd.Process))
				return false
			}
			return true
		}))
		asleep = append(asleep, w)
	}
	m.become(m.replaced(0, 3), "replace", 0, 3)
	m.become(m.replaced(1, 4), "replace", 1, 4)
	for _, w := range asleep {
		require.NoError(t, cluster.ThawProcess(w.cmd.Process))
		m.getsLeases(w, "it is awake")
	}
	m.getsLeases(m.start(settings), "it has the first list")
	m.become(m.replaced(2, 5), "replace", 2, 5)
	settings.Kill(t)
	for _, w := range m.all {
		m.getsLeases(w, "all servers of the settings are gone")
	}
	m.finish()
}
