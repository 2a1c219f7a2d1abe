//go:build !unix

package top

import "os"

// notifyContinued does nothing: the system has no jobs.
func notifyContinued(chan<- os.Signal) {}

func stopProcess(chan<- os.Signal) {}
