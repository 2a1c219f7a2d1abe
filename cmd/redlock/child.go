package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/printable"
)

// findCommand finds the program before the lock is taken: redlock does not wait for a lock
// if the command does not exist.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound):
		return "", &exit{code: codeNotFound, why: fmt.Errorf("%s: command not found", name)}
	}
	return "", &exit{code: codeNotExecutable, why: fmt.Errorf("%s cannot be executed: %w", name, err)}
}

// notExecutable is the error of a command that was found, and cannot be started.
func notExecutable(name string, err error) error {
	return &exit{code: codeNotExecutable,
		why: fmt.Errorf("%s cannot be executed (a script must begin with #!): %w", name, err)}
}

// child is the command that runs under the lock. It leads a process group of its own: a loss
// ends its children too, and nothing else.
type child struct {
	cmd   *exec.Cmd
	jobs  jobs
	stops chan os.Signal // by which the command was stopped
	over  chan struct{}  // closed when it has ended; then what follows may be read
	code  int            // its exit code, as shells report it
	by    os.Signal      // that ended it, or nil
}

// startChild starts the command, in the foreground of the terminal if redlock has that. On
// Linux the kernel signals the command when the thread that started it ends: so the caller's
// goroutine keeps its thread as long as the process lives.
func startChild(path string, args, env []string) (*child, error) {
	runtime.LockOSThread()
	// More stops than redlock has seen change nothing: it looks at the newest state.
	c := &child{cmd: exec.Command(path), jobs: newJobs(), stops: make(chan os.Signal, 8), over: make(chan struct{})}
	c.cmd.Args = args
	c.cmd.Env = env
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.cmd.SysProcAttr = c.jobs.attributes()
	if err := c.cmd.Start(); err != nil {
		c.jobs.end()
		return nil, notExecutable(args[0], err)
	}
	c.jobs.begin(c.cmd.Process.Pid)
	go c.await() // ends with the command, or as process 1 with its last child
	return c, nil
}

// ended reports whether the command has ended.
func (c *child) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// work runs the command under the lease. It returns the command's exit code, and why
// it was stopped if it was.
func (r *runner) work(path string, args []string) (int, error) {
	if why := r.mustEnd(); why != nil { // redlock was stopped after it got the lock
		return 0, &exit{code: codeLost, why: fmt.Errorf("the command is not run: %w", why)}
	}
	env := append(os.Environ(),
		"REDLOCK_NAME="+r.lease.Name(),
		"REDLOCK_NAMES="+strings.Join(r.lease.Names(), "\n"),
		"REDLOCK_OWNER="+r.lease.Owner(),
		"REDLOCK_TOKEN="+strconv.FormatInt(r.lease.Token(), 10),
		"REDLOCK_SLOTS="+slotsOf(r.lease),
		outerEnv+"="+withOuter(r.lease.Owner(), r.lease.Names()))
	r.listenForJobs()
	c, err := startChild(path, args, env)
	if err != nil {
		return 0, err
	}
	defer c.jobs.end()
	if why := r.supervise(c); why != nil {
		return 0, r.stop(c, why)
	}
	r.passInterrupt(c)
	return c.code, nil
}

// supervise forwards signals until the command ends (nil) or must be stopped; then it
// returns why.
func (r *runner) supervise(c *child) (why error) {
	look := time.NewTimer(0)
	defer look.Stop()
	for why == nil {
		select {
		case <-c.over:
			return nil
		case sig := <-r.signals:
			why = r.handle(c, sig)
		case sig := <-c.stops:
			why = r.stopped(c, sig)
		case <-r.lease.Done():
			why = r.mustEnd()
		case <-look.C:
			why = r.mustEnd()
			// Timers stop while the machine is suspended: check at least once a second.
			look.Reset(min(r.lease.Remaining()-r.flags.stopBefore, time.Second))
		}
	}
	return why
}

// mustEnd returns why the command must end, or nil while it may work.
func (r *runner) mustEnd() error {
	select {
	case <-r.lease.Done():
		return fmt.Errorf("the lock %q was lost: %s", r.lease.Name(), lossOf(r.lease.Err(), r.verbose))
	default:
	}
	if left := r.lease.Remaining(); left <= r.flags.stopBefore {
		return fmt.Errorf("the lock %q could not be renewed, and ends in %v", r.lease.Name(), printable.Duration(left))
	}
	return nil
}
