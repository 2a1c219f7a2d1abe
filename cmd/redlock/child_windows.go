package main

import (
	"os"
	"syscall"
)

// forwarded returns the signals that must not end redlock before the command: the console
// sends an interrupt to the command too.
func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func asksToEnd(os.Signal) bool { return true }

func signalCode(os.Signal) int { return codeSignal + 2 }

// jobs is nothing on Windows, which has no job control.
type jobs struct{ command int }

func newJobs() jobs { return jobs{} }

func (jobs) attributes() *syscall.SysProcAttr { return nil }

func (j *jobs) begin(command int) { j.command = command }

func (jobs) end() {}

func (r *runner) listenForJobs() {}

func (r *runner) handle(*child, os.Signal) error { return nil }

func (r *runner) handleAtEnd(*child, os.Signal) {}

func (r *runner) stopped(*child, os.Signal) error { return nil }

func (r *runner) passInterrupt(*child) {}

func (r *runner) letEnd(*child, os.Signal) {}

func (c *child) await() {
	_ = c.cmd.Wait() // its exit code is in cmd.ProcessState
	c.code = c.cmd.ProcessState.ExitCode()
	close(c.over)
}

// terminate kills the command: Windows has no signal that asks it to end.
func (c *child) terminate() error { return c.kill() }

func (c *child) kill() error { return c.cmd.Process.Kill() }

func (c *child) gone() bool { return c.ended() }

// endBy does nothing: on Windows a process does not end by a signal.
func endBy(os.Signal) {}
