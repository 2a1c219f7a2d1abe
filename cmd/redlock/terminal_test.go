//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// screen is the output of a terminal. It may be read while the tool writes.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// onTerminal runs the tool on a terminal of its own; the returned writer is the keyboard.
func onTerminal(t *testing.T, nodes *redlocktest.Nodes, args string) (*exec.Cmd, io.Writer, *screen) {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("needs script, of util-linux, to make a terminal")
	}
	// A shell between the terminal and the tool would receive Ctrl-C too.
	line := "exec " + os.Args[0] + " " + strings.Join(nodesArgs(nodes), " ") + " " + args
	cmd := exec.Command(script, "-qec", line, "/dev/null")
	cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0", "TERM=xterm", "SHELL=/bin/sh")
	typed, err := cmd.StdinPipe()
	require.NoError(t, err)
	out := &screen{}
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, typed, out
}

func TestCommandReadsFromTheTerminal(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	cmd, typed, out := onTerminal(t, nodes, `run job -- sh -c 'read word; echo got:$word'`)
	_, err := io.WriteString(typed, "hello\n")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "got:hello")
}

func TestOnATerminalCtrlCReachesTheCommand(t *testing.T) {
	unignore(t, syscall.SIGINT)
	nodes := redlocktest.Start(t, 1)
	cmd, typed, out := onTerminal(t, nodes, `run job -- sh -c 'trap "echo caught; exit 7" INT; echo ready; for i in $(seq 1000); do sleep 0.01; done'`)
	eventually(t, func() bool { return strings.Contains(out.String(), "ready") }, "at work")
	_, err := io.WriteString(typed, "\x03")
	require.NoError(t, err)
	_ = cmd.Wait()
	assert.Equal(t, 7, cmd.ProcessState.ExitCode(), out)
	assert.Contains(t, out.String(), "caught")
}

func TestColoursAreForTerminals(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	assert.NotContains(t, call(nodes, "inspect", "job").out, "\x1b")
	cmd, _, out := onTerminal(t, nodes, "inspect job")
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "\x1b[32mfree")
}

func TestWatchReplacesTheScreenAndRestoresIt(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	cmd, typed, out := onTerminal(t, nodes, "inspect --watch --every 100ms job")
	eventually(t, func() bool { return strings.Count(out.String(), "job") > 2 }, "three looks")
	_, err := io.WriteString(typed, "\x03")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "\x1b[?1049h")
	assert.Regexp(t, `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, out.String(), "when it looked")
	assert.Regexp(t, `\x1b\[\?1049l\s*$`, out.String())
}

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

// enterScreen and leaveScreen are what a terminal gets when top begins and ends.
const enterScreen, leaveScreen = "\x1b[?1049h", "\x1b[?1049l"

// terminal runs a shell's line on a terminal of its own. TOOL in the line is the tool.
func terminal(t *testing.T, nodes *redlocktest.Nodes, line, term string) (*exec.Cmd, *os.File, *screen) {
	t.Helper()
	line = strings.ReplaceAll(line, "TOOL", os.Args[0]+" "+strings.Join(nodesArgs(nodes), " "))
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0", "TERM="+term, "LC_ALL=C.UTF-8", "NO_COLOR=")
	keyboard, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	require.NoError(t, err)
	out, over := &screen{}, make(chan struct{})
	go func() {
		defer close(over)
		buffer := make([]byte, 4096)
		for {
			n, err := keyboard.Read(buffer)
			_, _ = out.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over // the terminal ends with its last process
		_ = keyboard.Close()
	})
	return cmd, keyboard, out
}

func press(t *testing.T, keyboard *os.File, keys string) {
	t.Helper()
	_, err := keyboard.WriteString(keys)
	require.NoError(t, err)
}

func TestTopStopsAndGoesOnWithItsShell(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	keep(t, hold(t, nodes, "backup"))
	cmd, keyboard, out := terminal(t, nodes, "set -m; TOOL top; echo code:$?; stty -a; fg; echo code:$?; fg; echo end:$?; stty -a", "xterm")
	eventually(t, func() bool { return strings.Contains(out.String(), "backup") }, "shown")
	assert.Contains(t, out.String(), enterScreen)
	assert.Contains(t, out.String(), "\x1b[3", "coloured")

	press(t, keyboard, "\x1a")
	eventually(t, func() bool { return strings.Count(out.String(), enterScreen) == 2 }, "it goes on, on its screen")
	before, after, _ := strings.Cut(out.String(), "code:148") // 128 + SIGTSTP
	assert.Equal(t, 1, strings.Count(before, leaveScreen), "it left the screen before it stopped")
	assert.Regexp(t, ` icanon\b`, after, "the shell's terminal is as it was")
	assert.Regexp(t, ` echo\b`, after)
	eventually(t, func() bool { return strings.Contains(strings.Split(out.String(), enterScreen)[2], "backup") }, "drawn anew")

	signalChild(t, cmd.Process.Pid, syscall.SIGTSTP)
	eventually(t, func() bool { return strings.Count(out.String(), enterScreen) == 3 }, "also after a stop from elsewhere")
	press(t, keyboard, "q")
	require.NoError(t, cmd.Wait(), out)
	eventually(t, func() bool { return strings.Contains(out.String(), "end:0") }, "ended")
	assert.Equal(t, 3, strings.Count(out.String(), leaveScreen))
}

// signalChild sends a signal to the child of a shell.
func signalChild(t *testing.T, shell int, s syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", shell))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, s))
}

func TestTopFollowsTheSizeOfTheTerminal(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	keep(t, hold(t, nodes, "backup"))
	cmd, keyboard, out := terminal(t, nodes, "exec TOOL top", "xterm")
	eventually(t, func() bool { return strings.Contains(out.String(), "backup") }, "shown")
	assert.Contains(t, out.String(), "NEXT, OR WHY")
	size := len(out.String())
	require.NoError(t, pty.Setsize(keyboard, &pty.Winsize{Rows: 20, Cols: 60}))
	eventually(t, func() bool { return strings.Contains(out.String()[size:], "backup") }, "drawn anew")
	assert.NotContains(t, out.String()[size:], "NEXT, OR WHY")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	eventually(t, func() bool { return strings.Contains(out.String(), leaveScreen) }, "restored")
}

func TestTopPrintsOnceOnADumbTerminal(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	keep(t, hold(t, nodes, "backup"))
	for _, term := range []string{"dumb", "no-such-terminal"} {
		cmd, _, out := terminal(t, nodes, "exec TOOL top", term)
		require.NoError(t, cmd.Wait(), out)
		eventually(t, func() bool { return strings.Contains(out.String(), "backup") }, "printed")
		assert.NotContains(t, out.String(), "\x1b", term)
	}
}

// setPipeSize is Linux's F_SETPIPE_SZ.
const setPipeSize = 1031

// The text is more than fits into the pipe, and its reader takes a part of the first line.
func TestTopIntoHeadIsNoFailure(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	client := testclient.Open(t, nodes.URLs(), redlock.WithTTL(10*time.Minute), redlock.WithoutRenewal())
	for i := range 40 {
		lease, err := client.Mutex(fmt.Sprintf("lock-%02d-%s", i, strings.Repeat("x", 150))).Lock(t.Context())
		require.NoError(t, err)
		keep(t, lease)
	}
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	raw, err := writer.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		_, _, refused := syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 4096)
		assert.Zero(t, refused)
	}))
	p := &tool{t: t, over: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append(nodesArgs(nodes), "top")...)
	p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = writer, &p.log
	p.run()
	require.NoError(t, writer.Close())
	head := make([]byte, 5)
	_, err = reader.Read(head)
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	r := p.end()
	assert.Zero(t, r.code, r.log)
	assert.Equal(t, "Locks", string(head))
	assert.Empty(t, r.log)
}

// A locale of another character set than UTF-8 has no sign for what top draws beyond ASCII.
func TestTopDrawsASCIIWhereTheLocaleHasAnotherCharacterSet(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	keep(t, hold(t, nodes, "backup"))
	for _, locale := range []string{"de_DE.ISO-8859-1", "de_DE.ISO-8859-15@euro", "ru_RU.KOI8-R", "ja_JP.eucJP", "C"} {
		cmd, keyboard, out := terminal(t, nodes, "exec env LC_ALL="+locale+" TOOL top", "xterm")
		eventually(t, func() bool { return strings.Contains(out.String(), "backup") }, "shown")
		press(t, keyboard, "q")
		require.NoError(t, cmd.Wait(), locale)
		assert.Regexp(t, `^[\x00-\x7f]*$`, out.String(), locale)
	}
}

// A vt100's description asks for a pause at each change of the cursor and of the colours.
func TestTopMakesNoPausesForSlowTerminals(t *testing.T) {
	keyboard, tty, err := pty.Open()
	require.NoError(t, err)
	defer keyboard.Close()
	defer tty.Close()
	t.Setenv("TERM", "vt100")
	require.NotNil(t, newScreen(tty))
	described, err := tcell.LookupTerminfo("vt100")
	require.NoError(t, err)
	assert.Contains(t, described.SetCursor, "$<5>")
	assert.Empty(t, described.PadChar, "tcell pauses where a terminal pads")
}
