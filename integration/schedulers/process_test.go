package schedulers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// A process is the test binary again, which runs a scheduler instead of the tests. It ends when its input does.

// processEnv has the settings of such a process, as JSON.
const processEnv = "REDLOCK_TEST_SCHEDULER"

// settings are what a process needs to know.
type settings struct {
	Kind    string
	Nodes   []string // URLs of the servers
	Queue   string   // the address of asynq's own server
	Period  time.Duration
	Behind  time.Duration
	History string
	Slot    int
}

func (s settings) clock() clock { return clock{s.Period, s.Behind} }

// startTimeout bounds the start of a process: a machine may be busy, and servers that are new vote after a ttl only.
const startTimeout = time.Minute

// runProcess is the main function of a process. It returns its exit code.
func runProcess() int {
	if err := runScheduler(); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		return 1
	}
	return 0
}

func runScheduler() error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(processEnv)), &s); err != nil {
		return err
	}
	h, err := openHistory(s.History, s.Slot)
	if err != nil {
		return err
	}
	defer h.file.Close()
	stop, err := starters[s.Kind](s, h)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return stop()
}

// starters start a scheduler of a kind in this process, and return what ends it.
var starters = map[string]func(settings, *history) (stop func() error, err error){
	lockerKind:  startLocker,
	anyTimeKind: startAnyTime,
	electorKind: startElector,
	asynqKind:   startAsynq,
	redsyncKind: startRedsync,
}

// logPath is where the clients' warnings are.
func logPath(history string) string { return history + ".log" }

// openClient opens the process's client, and waits until a majority votes. Its leases of the leader's lock are recorded.
func openClient(s settings, h *history) (*redlock.Client, error) {
	log, err := os.OpenFile(logPath(s.History), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // it ends with the process
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return testclient.OpenInProcess(ctx, s.Nodes, redlock.WithTTL(ttl), redlock.WithNodeTimeout(nodeTimeout), redlock.WithRestartGuard(ttl),
		redlock.WithLogger(slog.New(slog.NewTextHandler(log, nil)).With("slot", s.Slot)),
		redlock.WithOwnerLabel(fmt.Sprint(s.Slot)), redlock.WithTrace(&redlock.Trace{
			Lease: func(e redlock.LeaseEvent) {
				switch e.Kind {
				case "granted":
					h.addTerm(e.Name, elected)
				case "lost", "released":
					h.addTerm(e.Name, deposed)
				}
			},
		}))
}

// addTerm records the begin or the end of a term.
func (h *history) addTerm(lock string, w what) {
	if lock == leaderName {
		h.add(w, 0)
	}
}

// process is a process as its parent sees it.
type process struct {
	cmd   *exec.Cmd
	input io.Closer
	dead  chan struct{} // closed when it has ended
	err   error         // how it ended; to be read after that
}

// startProcess starts a process, and returns when its scheduler runs.
func startProcess(t *testing.T, s settings) *process {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	// The race detector lets a process that ends wait for a second.
	cmd.Env = append(os.Environ(), processEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, input: input, dead: make(chan struct{})}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // also a stopped one
	ready := make(chan string, 1)
	go func() { // ends with the process
		defer close(p.dead)
		line, _ := bufio.NewReader(output).ReadString('\n')
		ready <- line
		p.err = cmd.Wait()
	}()
	assert.Equal(t, "ready\n", <-ready, "a process of slot %d did not start", s.Slot)
	return p
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.dead
}

// end closes the process's input, and expects that it succeeds.
func (p *process) end(t *testing.T) {
	t.Helper()
	assert.NoError(t, p.input.Close())
	select {
	case <-p.dead:
		assert.NoError(t, p.err)
	case <-time.After(startTimeout):
		assert.Fail(t, "a process did not end")
		p.kill()
	}
}
