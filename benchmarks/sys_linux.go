package main

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the system kill the process when the thread that starts
// it ends: no server outlives a panic or a kill of this program.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
