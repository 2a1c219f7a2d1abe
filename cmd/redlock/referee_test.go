//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/redlocktest"
)

// workArg makes the test binary work until it is ended: it appends its name to the file WORK, and so does a child
// that does not stop at Ctrl-Z itself. (A shell would lose a Ctrl-C between two of its processes.) SIGTERM ends both
// in the kernel, ahead of a SIGCONT that follows it: Go's own handler leaves other threads time for a step. If
// STUBBORN is set, both ignore SIGTERM. What a failed test leaves behind works for five minutes.
const workArg = "work-as"

func init() {
	if len(os.Args) < 3 || os.Args[1] != workArg {
		return
	}
	if len(os.Args) == 3 {
		_ = os.WriteFile("redlock", []byte(strconv.Itoa(os.Getppid())), 0o600)
		_ = os.WriteFile("command", []byte(strconv.Itoa(os.Getpid())), 0o600)
		child := exec.Command(os.Args[0], workArg, os.Args[2], "child")
		if err := child.Start(); err != nil {
			panic(err)
		}
	} else {
		signal.Ignore(syscall.SIGTSTP)
	}
	if os.Getenv("STUBBORN") != "" {
		signal.Ignore(syscall.SIGTERM)
	} else if err := sigaction(syscall.SIGTERM, &action{}, nil); err != nil {
		panic(err)
	}
	f, err := os.OpenFile(os.Getenv("WORK"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	for begin := time.Now(); err == nil && time.Since(begin) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
		_, err = f.WriteString(os.Args[2] + "\n")
	}
	os.Exit(1)
}

// match is a command A at a desk, and a command B that waits for its lock elsewhere.
type match struct {
	*desk
	place string // where A works: a key of lines
	nodes *redlocktest.Nodes
	link  *link // of A to its node
	b     *tool
}

// short4s is a ttl that outlasts a busy machine. What A's redlock has not renewed for as long is lost.
var short4s = []string{"--ttl", "4s", "--node-timeout", "1900ms"}

// workerA is the line that lets A work. The flags in FLAGS are those of an event.
const workerA = "$TOOL run job --ttl 4s $FLAGS -- $EXE " + workArg + " A"

// resumerA lets A work under a lock that a run before it has transferred.
const resumerA = "$TOOL run job --ttl 1m --transfer text -- true && $TOOL resume --ttl 4s $FLAGS %s -- $EXE " + workArg + " A"

const process1 = "process 1"

// lines are the places where A works.
var lines = map[string]string{
	"terminal":          workerA,
	"pipe":              "echo list | " + workerA,
	"file":              workerA + " <script",
	"/dev/null":         workerA + " </dev/null",
	"script":            "sh script",
	"nested":            "$TOOL run outer -- " + workerA,
	process1:            "unshare " + strings.Join(ownNamespace, " ") + " " + workerA,
	"resume":            fmt.Sprintf(resumerA, "--from text"),
	"resume from stdin": fmt.Sprintf(resumerA, "<text"),
}

// startMatch lets A work. ahead is what its shell does first.
func startMatch(t *testing.T, place, ahead string) *match {
	t.Helper()
	if place == process1 {
		needNamespaces(t)
	}
	m := &match{place: place, nodes: redlocktest.Start(t, 1)}
	m.link = newLink(t, m.nodes.URLs()[0])
	m.desk = newDesk(t, append([]string{"--nodes", m.link.url, "--restart-guard", "0"}, short4s[2:]...))
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "script"), []byte(workerA+"\necho the script goes on\n"), 0o600))
	m.begin(ahead + lines[place])
	m.works("A")
	return m
}

// letBWait starts B, which writes its name when it has the lock.
func (m *match) letBWait() {
	m.b = start(m.t, m.nodes, append(append([]string{"run", "job"}, short4s...), "--", "sh", "-c",
		`for i in 1 2 3 4 5 6 7 8 9 10; do echo B >>$0; sleep 0.02; done`, filepath.Join(m.dir, "work"))...)
}

// pid returns the process of A's redlock, or of its command. Process 1 has that number in its namespace alone.
func (m *match) pid(of string) int {
	own := regexp.MustCompile(`(?m)^NSpid:.*\s` + textOf(filepath.Join(m.dir, of)) + `$`)
	for _, pid := range descendants(m.cmd.Process.Pid) {
		if own.MatchString(textOf(fmt.Sprintf("/proc/%d/status", pid))) {
			return pid
		}
	}
	require.FailNow(m.t, "no process", of)
	return 0
}

func (m *match) signal(pid int, sig syscall.Signal) { require.NoError(m.t, syscall.Kill(pid, sig)) }

// awaitB waits until B has had the lock, and has ended.
func (m *match) awaitB() {
	m.t.Helper()
	r := m.b.end()
	require.Zero(m.t, r.code, r.log)
}

// isStopped expects that a key, or a signal, stops A. Nothing could continue a process 1: there A goes on under its
// lock, and isStopped returns false when A and B have ended.
func (m *match) isStopped(key func(m *match)) bool {
	if m.place == process1 {
		m.letBWait()
		key(m)
		m.works("A")
		m.run("\x03")
		m.awaitB()
		return false
	}
	n := m.prompts()
	key(m)
	m.awaitPrompts(n + 1)
	assert.Contains(m.t, m.out.String(), "Stopped")
	return true
}

// stop is an event that stops A for longer than its lock lasts. key stops A.
func stop(key func(m *match)) func(m *match) {
	return func(m *match) {
		if !m.isStopped(key) {
			return
		}
		m.rests()
		m.begin("fg") // within the ttl A works again
		m.works("A")
		m.letBWait()
		m.isStopped(key)
		m.awaitB()
		assert.Contains(m.t, m.run("fg\n"), "lost")
	}
}

func ctrlZ(m *match) { press(m.t, m.keyboard, "\x1a") }

// robStopped gives B the lock of an A that is stopped, and whose ttl has not passed when A is continued. Only the nodes
// know of the loss, and their answer comes late: until then A must not work.
func robStopped(m *match) {
	if !m.isStopped(ctrlZ) {
		return
	}
	m.rests()
	require.Zero(m.t, unlock(m.nodes, "--force", "job").code)
	m.letBWait()
	m.awaitB()
	m.link.freeze()
	n, said := m.prompts(), len(m.out.String())
	m.begin("fg")
	eventually(m.t, m.link.waits.Load, "a question to the node")
	m.rests()
	m.link.thaw()
	m.awaitPrompts(n + 1)
	assert.Contains(m.t, m.out.String()[said:], "lost")
}

// A's terms where its lock is forced, and its command ignores SIGTERM. They tell a redlock that learns of the loss by
// its next renewal from one that learns of it when its validity ends, two renewals later.
const (
	forcedTTL   = 12 * time.Second
	renewal     = forcedTTL / 3
	forcedGrace = 500 * time.Millisecond
	slack       = 3 * time.Second // of a busy machine
)

// exports give A's shell the variables of an event.
var exports = map[string]string{
	"unlock --force":         fmt.Sprintf("export FLAGS='--ttl %v --grace %v' STUBBORN=1; ", forcedTTL, forcedGrace),
	"Ctrl-Z, unlock --force": "export FLAGS='--ttl 1m'; ",
}

// events are what happens to A.
var events = map[string]func(m *match){
	"Ctrl-Z":                 stop(ctrlZ),
	"Ctrl-Z, unlock --force": robStopped,
	"SIGTSTP of redlock":     stop(func(m *match) { m.signal(m.pid("redlock"), syscall.SIGTSTP) }),
	"SIGSTOP of the command": stop(func(m *match) { m.signal(m.pid("command"), syscall.SIGSTOP) }),
	"Ctrl-C":                 func(m *match) { m.letBWait(); m.run("\x03"); m.awaitB() },
	"Ctrl-\\":                func(m *match) { m.letBWait(); m.run("\x1c"); m.awaitB() },
	"group kill": func(m *match) {
		m.letBWait()
		group, err := syscall.Getpgid(m.pid("redlock"))
		require.NoError(m.t, err)
		n := m.prompts()
		m.signal(-group, syscall.SIGTERM)
		m.awaitPrompts(n + 1)
		m.awaitB()
	},
	"frozen masters": func(m *match) {
		m.letBWait()
		n := m.prompts()
		m.link.freeze()
		m.awaitB()
		m.awaitPrompts(n + 1)
	},
	"loss": func(m *match) {
		n := m.prompts()
		m.nodes.Stop(0)
		m.awaitPrompts(n + 1)
		require.NoError(m.t, m.nodes.Start(0))
		m.letBWait()
		m.awaitB()
	},
	"SIGSTOP of redlock": func(m *match) {
		m.letBWait()
		redlock := m.pid("redlock")
		m.signal(redlock, syscall.SIGSTOP)
		m.awaitB()
		m.works("A") // though B has had the lock
		m.signal(redlock, syscall.SIGCONT)
		eventually(m.t, func() bool { return syscall.Kill(redlock, 0) == syscall.ESRCH }, "the end of A")
	},
	"unlock --force": func(m *match) {
		m.letBWait()
		n, begin := m.prompts(), time.Now()
		require.Zero(m.t, unlock(m.nodes, "--force", "job").code)
		m.awaitPrompts(n + 1)
		assert.Less(m.t, time.Since(begin), renewal+forcedGrace+slack, "A ends --grace after its next renewal")
		m.awaitB()
	},
}

// overlaps are the events after which A may work beside B for a while, each with what the manual says of it. A
// redlock that is stopped alone cannot stop its command, and one that has just renewed does not ask the nodes.
var overlaps = map[string]string{
	"SIGSTOP of redlock": "So it does while redlock alone is stopped (SIGSTOP,",
	"unlock --force":     "a sudden loss (by unlock --force,",
}

// TestNeverTwoCommandsAtOnce is the referee of redlock run and resume: whatever happens to A, it never works again
// once B has. After one of the overlaps A has ended with its redlock, which learns of the loss by its next renewal.
func TestNeverTwoCommandsAtOnce(t *testing.T) {
	inGate := map[string]string{"Ctrl-Z": "pipe", "SIGTSTP of redlock": "script",
		"Ctrl-C": "nested", "Ctrl-\\": "resume", "frozen masters": "terminal", "unlock --force": process1,
		"Ctrl-Z, unlock --force": "file"}
	for event, happens := range events {
		for place := range lines {
			if !long.Tests() && inGate[event] != place {
				continue
			}
			t.Run(event+"/"+place, func(t *testing.T) {
				t.Parallel()
				m := startMatch(t, place, exports[event])
				happens(m)
				m.rests()
				if said := overlaps[event]; said != "" {
					assert.Contains(t, runHelp, said)
					assert.Contains(t, m.work(), "B")
				} else {
					assert.Equal(t, []string{"A", "B"}, m.work())
				}
				if strings.HasPrefix(event, "Ctrl-C") {
					assert.NotContains(t, m.out.String(), "the script goes on")
				}
			})
		}
	}
}
