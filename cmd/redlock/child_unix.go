//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"
)

// forwarded are the signals that are handed on to the command.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	}
}

// asksToEnd tells whether a signal ends a redlock that still waits for the lock.
func asksToEnd(sig os.Signal) bool { return sig != syscall.SIGWINCH && sig != syscall.SIGCONT }

func signalCode(sig os.Signal) int { return codeSignal + int(sig.(syscall.Signal)) }

// fromTerminal are sent by the terminal to every process in the foreground: a
// command that shares redlock's group has got them already.
var fromTerminal = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT}

func (c *child) forward(sig os.Signal) {
	if c.grouped || !slices.Contains(fromTerminal, sig) {
		c.send(sig.(syscall.Signal))
	}
}

// terminate asks the command to end. One that is stopped must go on to hear it.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

func (c *child) kill() { c.send(syscall.SIGKILL) }

// gone tells whether the command has ended, and nobody of its group is left.
func (c *child) gone() bool {
	return c.ended() && (!c.grouped || syscall.Kill(-c.cmd.Process.Pid, 0) == syscall.ESRCH)
}

// send signals the command's group, or the command alone where it has none. That
// they are gone already is no error.
func (c *child) send(sig syscall.Signal) {
	if c.grouped {
		_ = syscall.Kill(-c.cmd.Process.Pid, sig)
		return
	}
	_ = c.cmd.Process.Signal(sig)
}

// exitCode is the command's exit code, as shells tell it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignal + int(status.Signal())
	}
	return state.ExitCode()
}
