package main

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastSignal is the last real-time signal.
const lastSignal = 64

// action is larger than the kernel's struct sigaction on every architecture. All zeros are the
// default action.
type action [8]uintptr

// ignores is SIG_IGN.
const ignores = 1

// sigaction is the system call. Package signal does not say which stop signals redlock ignores since
// its start, and does not restore their default action once it has listened for them.
func sigaction(sig syscall.Signal, set, was *action) error {
	size := uintptr(8) // of a set of signals
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		size = 16
	}
	_, _, err := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(was)), size, 0, 0)
	if err != 0 {
		return err
	}
	return nil
}

// ignored returns those of the signals that redlock ignores.
func ignored(signals []os.Signal) (all []os.Signal) {
	for _, sig := range signals {
		var is action
		handler := &is[0]
		if strings.HasPrefix(runtime.GOARCH, "mips") {
			handler = &is[1] // behind the flags
		}
		if sigaction(sig.(syscall.Signal), nil, &is) == nil && *handler == ignores {
			all = append(all, sig)
		}
	}
	return all
}

// stopSelf stops redlock by a signal, and returns when it is continued. The thread sends it to
// itself: so it stops before anything else happens. The signal must be ignored by package signal,
// which listens for it anew afterwards.
func stopSelf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if sigaction(sig, &action{}, nil) == nil {
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
	}
}
