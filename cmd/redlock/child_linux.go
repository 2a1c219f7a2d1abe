package main

import "syscall"

// attributes makes the kernel send the command SIGTERM when redlock has been killed.
func attributes(grouped bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: grouped, Pdeathsig: syscall.SIGTERM}
}
