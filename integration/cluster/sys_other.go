//go:build !unix

package cluster

import (
	"errors"
	"os"
	"os/exec"
)

func detach(*exec.Cmd) {}

// FreezeProcess is for systems that have SIGSTOP.
func FreezeProcess(*os.Process) error { return errors.ErrUnsupported }

// ThawProcess is for systems that have SIGCONT.
func ThawProcess(*os.Process) error { return errors.ErrUnsupported }
