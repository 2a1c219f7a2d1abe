//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// notForwarded are the signals that are for redlock itself: of the kernel (SIGCHLD), of Go's
// runtime (SIGURG), of a reader that is gone (SIGPIPE), and of job control.
var notForwarded = append([]os.Signal{syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGKILL,
	syscall.SIGSTOP}, ofJobs...)

// forwarded returns the signals that redlock forwards to the command: all that can be caught.
func forwarded() []os.Signal {
	var all []os.Signal
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if !slices.Contains(notForwarded, os.Signal(n)) {
			all = append(all, n)
		}
	}
	return all
}

// asksToEnd reports whether a signal ends a redlock that still waits for the lock.
func asksToEnd(sig os.Signal) bool {
	return sig != syscall.SIGWINCH && unix.SignalName(sig.(syscall.Signal)) != "SIGINFO" // Ctrl-T of the BSDs
}

func signalCode(sig os.Signal) int { return codeSignal + int(sig.(syscall.Signal)) }

// ending are the signals that ask a program to end. A stopped command must be continued to handle
// one.
var ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGALRM,
	syscall.SIGABRT}

// forward sends a signal to the command's group.
func (c *child) forward(sig os.Signal) error {
	err := c.send(sig)
	if slices.Contains(ending, sig) {
		_ = c.send(syscall.SIGCONT) // err says it already
	}
	return err
}

// terminate asks the command to end.
func (c *child) terminate() error { return c.forward(syscall.SIGTERM) }

func (c *child) kill() error { return c.send(syscall.SIGKILL) }

// send signals the command's group. It returns no error if that has ended.
func (c *child) send(sig os.Signal) error {
	err := syscall.Kill(-c.jobs.command, sig.(syscall.Signal))
	if err == syscall.ESRCH {
		return nil
	}
	return err
}

// gone reports whether the command and all of its group have ended.
func (c *child) gone() bool {
	return c.ended() && !isAlive(c.jobs.command)
}

// await waits for the command's end, and reports each stop before. As process 1 redlock waits for
// all its children: the kernel gives it the orphans of the container, and nobody else reaps them.
func (c *child) await() {
	which := c.jobs.command
	if os.Getpid() == 1 {
		which = -1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(which, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // no child is left
		case pid != c.jobs.command:
		case status.Stopped():
			select {
			case c.stops <- status.StopSignal():
			default:
			}
		default:
			c.code = status.ExitStatus()
			if status.Signaled() {
				c.by = status.Signal()
				c.code = signalCode(c.by)
			}
			close(c.over)
			if which != -1 {
				return
			}
		}
	}
}
