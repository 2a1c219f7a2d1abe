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

// isAlive reports whether a process of a group has not ended. A zombie, which nobody has reaped yet, has ended: in a
// container whose first process reaps nothing, zombies stay. A /proc that shows no process of the group hides those of
// other users (hidepid).
func isAlive(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return true // there is no /proc, or it shows another namespace
	}
	zombies := false
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		switch stateIn(group, text) {
		case 0:
		case 'Z', 'X':
			zombies = true
		default:
			return true
		}
	}
	return !zombies
}

// stateIn returns the letter of a process's state, by its line in /proc, and 0 if the process is in another group.
func stateIn(group int, stat []byte) byte {
	// The program's name is in parentheses, and may contain others.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
		return 0
	}
	return fields[0][0]
}
