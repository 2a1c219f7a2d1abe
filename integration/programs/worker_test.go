package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// workerEnv names the job that a process runs.
const workerEnv = "REDLOCK_TEST_PROGRAM"

// jobs are what a worker process can do.
var jobs = map[string]func(args []string, p *parent) error{
	"certificates": serveCertificates,
	"migrations":   migrateDatabase,
}

// parent is the test, as a worker process sees it: it gets the process's output and gives its input.
type parent struct {
	lines chan string // its input; closed when the test has ended

	mu sync.Mutex // one line is written at a time
}

var errTestEnded = errors.New("the test has ended")

func (p *parent) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

// ask says what the process is about to do, and waits until the test lets it.
func (p *parent) ask(format string, args ...any) error {
	p.say(format, args...)
	if _, open := <-p.lines; !open {
		return errTestEnded
	}
	return nil
}

// runJob is the main function of a worker process.
func runJob(name string) int {
	p := &parent{lines: make(chan string)}
	go func() { // ends with the input; the process ends soon after
		defer close(p.lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	if err := jobs[name](os.Args[1:], p); err != nil {
		p.say("failed: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// worker is a worker process, as the test sees it.
type worker struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// event is a line that a worker says.
type event struct {
	from *worker
	line string
}

// fleet is the workers of a test, which end with it.
type fleet struct {
	workers []*worker
	events  chan event
	readers sync.WaitGroup
}

// startFleet starts n workers with a job, and returns when all have said "ready".
func startFleet(t *testing.T, n int, job string, args ...string) *fleet {
	t.Helper()
	f := &fleet{events: make(chan event, 1000)} // more than they say
	t.Cleanup(func() { f.end() })
	for range n {
		cmd := exec.Command(os.Args[0], args...)
		// The race detector lets a process that ends wait for a second.
		cmd.Env = append(os.Environ(), workerEnv+"="+job, "GORACE=atexit_sleep_ms=0")
		cmd.Stderr = os.Stderr
		input, err := cmd.StdinPipe()
		require.NoError(t, err)
		output, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		w := &worker{cmd, input}
		f.workers = append(f.workers, w)
		f.readers.Go(func() { // ends with the process
			for out := bufio.NewScanner(output); out.Scan(); {
				f.events <- event{w, out.Text()}
			}
		})
	}
	for range n {
		require.Equal(t, "ready", f.next(t).line)
	}
	return f
}

// end ends all workers: by the end of their input, and those that go on by force.
func (f *fleet) end() {
	for _, w := range f.workers {
		_ = w.input.Close()
		kill := time.AfterFunc(20*time.Second, func() { _ = w.cmd.Process.Kill() })
		defer kill.Stop()
	}
	f.readers.Wait()
	for _, w := range f.workers {
		_ = w.cmd.Wait()
	}
}

// sayAll sends all workers a line.
func (f *fleet) sayAll(t *testing.T, line string) {
	t.Helper()
	for _, w := range f.workers {
		w.say(t, line)
	}
}

// next returns what a worker says next.
func (f *fleet) next(t *testing.T) event {
	t.Helper()
	select {
	case e := <-f.events:
		return e
	case <-time.After(soon):
		require.FailNow(t, "the processes say nothing")
		return event{}
	}
}

// expect returns what a worker says next, which must begin with a word.
func (f *fleet) expect(t *testing.T, word string) event {
	t.Helper()
	e := f.next(t)
	require.Truef(t, strings.HasPrefix(e.line, word), "expected %q, got %q", word, e.line)
	return e
}

func (w *worker) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(w.input, line+"\n")
	require.NoError(t, err)
}

// kill ends the process at once, as kill -9 does.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, w.cmd.Process.Kill())
}
