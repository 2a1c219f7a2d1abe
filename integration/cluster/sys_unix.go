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

func freezeProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thawProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
