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

func attributes(bool) *syscall.SysProcAttr { return nil }

func (c *child) forward(os.Signal) {}

// terminate kills the command: Windows has no signal that asks it to end.
func (c *child) terminate() { c.kill() }

func (c *child) kill() { _ = c.cmd.Process.Kill() }

func (c *child) gone() bool { return c.ended() }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
