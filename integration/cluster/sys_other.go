//go:build !unix

package cluster

import (
	"errors"
	"os"
	"os/exec"
)

func detach(*exec.Cmd) {}

func freezeProcess(*os.Process) error { return errors.ErrUnsupported }

func thawProcess(*os.Process) error { return errors.ErrUnsupported }
