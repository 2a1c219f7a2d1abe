package main

import "syscall"

// attributes: the kernel asks the command to end when redlock has been killed.
func attributes(grouped bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: grouped, Pdeathsig: syscall.SIGTERM}
}
