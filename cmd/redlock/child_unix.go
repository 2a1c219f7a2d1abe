//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"
)

// forwarded returns the signals that redlock forwards to the command.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	}
}

// asksToEnd reports whether a signal ends a redlock that still waits for the lock.
func asksToEnd(sig os.Signal) bool { return sig != syscall.SIGWINCH && sig != syscall.SIGCONT }

func signalCode(sig os.Signal) int { return codeSignal + int(sig.(syscall.Signal)) }

// fromTerminal are the signals that the terminal sends to every process in the foreground:
// a command in redlock's group has received them already.
var fromTerminal = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT}

func (c *child) forward(sig os.Signal) {
	if c.grouped || !slices.Contains(fromTerminal, sig) {
		c.send(sig.(syscall.Signal))
	}
}

// terminate asks the command to end. A stopped command must be continued to handle the
// signal.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

func (c *child) kill() { c.send(syscall.SIGKILL) }

// gone reports whether the command and all of its group have ended.
func (c *child) gone() bool {
	return c.ended() && (!c.grouped || syscall.Kill(-c.cmd.Process.Pid, 0) == syscall.ESRCH)
}

// send signals the command's group, or the command alone if it has none. It ignores the
// error if they have ended already.
func (c *child) send(sig syscall.Signal) {
	if c.grouped {
		_ = syscall.Kill(-c.cmd.Process.Pid, sig)
		return
	}
	_ = c.cmd.Process.Signal(sig)
}

// exitCode returns the command's exit code, as shells report it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignal + int(status.Signal())
	}
	return state.ExitCode()
}
