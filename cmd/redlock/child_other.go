//go:build unix && !linux

package main

import "syscall"

func attributes(grouped bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: grouped}
}
