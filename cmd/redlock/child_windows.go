package main

import (
	"os"
	"syscall"
)

// forwarded: of an interrupt at the console the command hears by itself; redlock
// must only outlive it.
func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func asksToEnd(os.Signal) bool { return true }

func signalCode(os.Signal) int { return codeSignal + 2 }

func attributes(bool) *syscall.SysProcAttr { return nil }

func (c *child) forward(os.Signal) {}

// terminate kills: there is no way to ask.
func (c *child) terminate() { c.kill() }

func (c *child) kill() { _ = c.cmd.Process.Kill() }

func (c *child) gone() bool { return c.ended() }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
