//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

const lastSignal = 31

// ignored returns none: package signal does not say which stop signals a program ignores since its start.
func ignored([]os.Signal) []os.Signal { return nil }

// stopSelf stops redlock, and returns when it is continued. Package signal does not restore the
// default action of another stop signal once redlock has listened for it.
func stopSelf(syscall.Signal) { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
