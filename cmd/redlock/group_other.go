//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

func parentDeath(*syscall.SysProcAttr) {}

// isAlive reports whether a process of a group has not ended.
func isAlive(group int) bool { return syscall.Kill(-group, 0) != syscall.ESRCH }

// witness is for Linux alone, as systemd is.
type witness struct{}

func newWitness() *witness { return nil }

func (*witness) saw(os.Signal) bool { return false }

func (*witness) end() {}
