//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// desk is an interactive bash with job control, on a terminal of its own. Its variable TOOL is the
// tool, and WORK a file for what commands do.
type desk struct {
	t        *testing.T
	cmd      *exec.Cmd
	keyboard *os.File
	out      *screen
	dir      string
}

const prompt = "desk> "

func newDesk(t *testing.T, toolArgs []string) *desk {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash, for its job control")
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		unignore(t, sig)
	}
	d := &desk{t: t, cmd: exec.Command(bash, "--norc", "--noediting", "-i"), out: &screen{}, dir: t.TempDir()}
	d.cmd.Dir = d.dir
	d.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0", "TERM=dumb", "PS1="+prompt, "HISTFILE=", "ENV=",
		"WORK="+filepath.Join(d.dir, "work"), "EXE="+os.Args[0], "TOOL="+os.Args[0]+" "+strings.Join(toolArgs, " "))
	d.keyboard, err = pty.StartWithSize(d.cmd, &pty.Winsize{Rows: 50, Cols: 500})
	require.NoError(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		buffer := make([]byte, 4096)
		for {
			n, err := d.keyboard.Read(buffer)
			_, _ = d.out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = d.keyboard.Close() // hangs up: bash ends its jobs
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		<-over
		if t.Failed() {
			t.Log(d.out)
		}
	})
	d.awaitPrompts(1)
	press(t, d.keyboard, "stty -echo\n")
	d.awaitPrompts(2)
	return d
}

// awaitPrompts waits until the shell has prompted so many times.
func (d *desk) awaitPrompts(n int) {
	d.t.Helper()
	eventually(d.t, func() bool { return strings.Count(d.out.String(), prompt) >= n }, "a prompt")
}

// prompts returns how many times the shell has prompted.
func (d *desk) prompts() int { return strings.Count(d.out.String(), prompt) }

// begin types a line whose job stays in the foreground.
func (d *desk) begin(line string) { press(d.t, d.keyboard, line+"\n") }

// run types a line, or keys, and returns what is printed until the next prompt.
func (d *desk) run(keys string) string {
	d.t.Helper()
	before := len(d.out.String())
	n := d.prompts()
	press(d.t, d.keyboard, keys)
	d.awaitPrompts(n + 1)
	return d.out.String()[before:]
}

// work returns the names of the commands that worked, in their order, each once for a stretch.
func (d *desk) work() (names []string) {
	for _, name := range strings.Fields(textOf(filepath.Join(d.dir, "work"))) {
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}

// works waits until a command of a name works.
func (d *desk) works(name string) {
	d.t.Helper()
	size := len(textOf(filepath.Join(d.dir, "work")))
	eventually(d.t, func() bool { return strings.Contains(textOf(filepath.Join(d.dir, "work"))[size:], name) }, name+" is at work")
}

// rests expects that nobody works any more.
func (d *desk) rests() {
	d.t.Helper()
	assertStill(d.t, filepath.Join(d.dir, "work"))
}

func TestACommandGetsTheTerminalWhateverItsStdin(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	d := newDesk(t, nodesArgs(nodes))
	for _, before := range []string{"</dev/null ", "echo list | ", "</etc/passwd "} {
		d.begin(before + `$TOOL run job -- sh -c 'read a b c d e f g front rest </proc/$$/stat; [ $front = $$ ] && exec </dev/tty; stty -echo; echo ready; read word; echo "got:$word"; stty echo -echo'`)
		eventually(t, func() bool { return strings.HasSuffix(d.out.String(), "ready\r\n") }, "it may set the terminal")
		assert.Contains(t, d.run("hello\n"), "got:hello")
	}
}

func TestCtrlCEndsALoopOfRuns(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	d := newDesk(t, nodesArgs(nodes))
	d.begin("while read h; do $TOOL run job -- sh -c 'echo A >>$WORK; exec sleep 60'; done </etc/passwd")
	d.works("A")
	d.run("\x03")
	assert.Contains(t, d.run("echo code:$?\n"), "code:130")
}

func TestAPagerBehindRedlockGetsTheTerminal(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	d := newDesk(t, nodesArgs(nodes))
	d.begin(`$TOOL run job -- sh -c 'echo line; while [ ! -e go ]; do sleep 0.01; done; exec </dev/tty; stty -echo; echo ready >go; read word; echo "command:$word"'` +
		` | sh -c 'exec 3</dev/tty; read line; stty -echo <&3; echo asks; read word <&3; echo "pager:$word"; touch go; cat'`)
	eventually(t, func() bool { return strings.HasSuffix(d.out.String(), "asks\r\n") }, "the pager set the terminal, which the command had")
	press(t, d.keyboard, "one\n")
	eventually(t, func() bool { return textOf(filepath.Join(d.dir, "go")) == "ready\n" }, "the command set it, which the pager had")
	assert.Regexp(t, `(?s)pager:one.*command:two`, d.out.String()+d.run("two\n"))
}
