package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// parentDeath makes the kernel send the command SIGTERM when redlock has been killed.
func parentDeath(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }

// isAlive reports whether a process of a group has not ended. A zombie, which nobody has reaped yet,
// has: in a container whose first process reaps nothing, zombies stay.
func isAlive(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return true // there is no /proc, or that of another namespace
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && isMember(text, group) {
			return true
		}
	}
	return err != nil
}

// isMember reports whether a process, by its line in /proc, is of a group and no zombie.
func isMember(stat []byte, group int) bool {
	// The program's name is in parentheses, and may contain others.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return false
	}
	state, its := fields[0][0], string(fields[2])
	return state != 'Z' && state != 'X' && its == strconv.Itoa(group)
}
