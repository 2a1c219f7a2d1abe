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

// child is the command that runs under the lock.
type child struct {
	cmd     *exec.Cmd
	grouped bool          // it has a process group of its own
	over    chan struct{} // closed when it has ended
}

// startChild starts the command. On Linux the kernel signals the command when the thread
// that started it ends: so the caller's goroutine keeps its thread as long as the process
// lives.
func startChild(path string, args, env []string, grouped bool) (*child, error) {
	runtime.LockOSThread()
	c := &child{cmd: exec.Command(path), grouped: grouped, over: make(chan struct{})}
	c.cmd.Args = args
	c.cmd.Env = env
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.cmd.SysProcAttr = attributes(grouped)
	if err := c.cmd.Start(); err != nil {
		return nil, &exit{code: codeNotExecutable, why: fmt.Errorf("%s cannot be executed (a script must begin with #!): %w", args[0], err)}
	}
	go func() { // ends with the command
		_ = c.cmd.Wait() // its exit code is in cmd.ProcessState
		close(c.over)
	}()
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
	env := append(os.Environ(),
		"REDLOCK_NAME="+r.lease.Name(),
		"REDLOCK_NAMES="+strings.Join(r.lease.Names(), "\n"),
		"REDLOCK_OWNER="+r.lease.Owner(),
		"REDLOCK_TOKEN="+strconv.FormatInt(r.lease.Token(), 10),
		"REDLOCK_SLOTS="+slotsOf(r.lease))
	c, err := startChild(path, args, env, !isTerminal(os.Stdin))
	if err != nil {
		return 0, err
	}
	why := r.supervise(c)
	if why != nil {
		kill := time.NewTimer(r.flags.grace)
		c.terminate()
		r.print("%v: the command gets SIGTERM, and in %v SIGKILL", why, r.flags.grace)
		r.awaitStop(c, kill)
		why = &exit{code: codeLost} // the message above says all
	}
	return exitCode(c.cmd.ProcessState), why
}

// supervise forwards signals until the command ends (nil) or must be stopped; then it
// returns why.
func (r *runner) supervise(c *child) error {
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-c.over:
			return nil
		case sig := <-r.signals:
			c.forward(sig)
		case <-r.lease.Done():
			return fmt.Errorf("the lock %q was lost: %s", r.lease.Name(), lossOf(r.lease.Err(), r.verbose))
		case <-look.C:
			left := r.lease.Remaining()
			if left <= r.flags.stopBefore {
				return fmt.Errorf("the lock %q could not be renewed, and ends in %v", r.lease.Name(), short(left))
			}
			// Timers stop while the machine is suspended: check at least once a second.
			look.Reset(min(left-r.flags.stopBefore, time.Second))
		}
	}
}

// awaitStop waits for the end of the command, which has got SIGTERM, and of its process group. It sends SIGKILL when the
// grace is over, whose timer is kill.
func (r *runner) awaitStop(c *child, kill *time.Timer) {
	defer kill.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if c.gone() {
				return
			}
		case sig := <-r.signals:
			c.forward(sig)
		case <-kill.C:
			c.kill()
			<-c.over
			return
		}
	}
}
