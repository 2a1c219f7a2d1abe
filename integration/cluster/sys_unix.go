//go:build unix

package cluster

import (
	"os"
	"os/exec"
	"syscall"
)

// detach puts a command into a group of its own: an interrupt at the terminal is
// for the tests, which then clean up; it must not end the servers under them.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// FreezeProcess stops a process with SIGSTOP; ThawProcess lets it go on.
func FreezeProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// ThawProcess ends a FreezeProcess.
func ThawProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
