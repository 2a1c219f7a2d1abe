//go:build !unix

package top

import "os"

// jobSignals is empty: the system has no jobs.
var jobSignals []os.Signal

func isStop(os.Signal) bool { return false }

func stopProcess() {}
