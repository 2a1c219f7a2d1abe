//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
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
