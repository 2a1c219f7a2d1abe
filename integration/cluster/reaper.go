package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// The reaper is a second process of the test binary. It gets the ids of all processes and
// containers, and when the pipe to it breaks it removes those that are left: so none
// outlives the tests, even if they panic, time out or are killed.

const (
	reaperEnv = "REDLOCK_TEST_REAPER"

	processKind   = "process"
	directoryKind = "directory"
	containerKind = "container"
)

var reaper struct {
	sync.Mutex
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// remember makes the reaper remove a process or container at the end.
func remember(kind, id string) error { return tellReaper("+", kind, id) }

// forget makes the reaper forget it, since it does not exist any more.
func forget(kind, id string) error { return tellReaper("-", kind, id) }

func tellReaper(words ...string) error {
	reaper.Lock()
	defer reaper.Unlock()
	if reaper.cmd == nil {
		if err := startReaper(); err != nil {
			return fmt.Errorf("reaper: %w", err)
		}
	}
	_, err := fmt.Fprintln(reaper.pipe, strings.Join(words, " "))
	return err
}

// startReaper is called with the reaper's lock held.
func startReaper() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), reaperEnv+"=1")
	cmd.Stderr = os.Stderr
	detach(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	reaper.cmd, reaper.pipe = cmd, pipe
	return cmd.Start()
}

// stopReaper lets the reaper do its work, if any is left, and awaits its end.
func stopReaper() error {
	reaper.Lock()
	defer reaper.Unlock()
	if reaper.cmd == nil {
		return nil
	}
	err := errors.Join(reaper.pipe.Close(), reaper.cmd.Wait())
	reaper.cmd = nil
	return err
}

// runReaper is the main program of the second process; it returns its exit code.
func runReaper(orders io.Reader) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	left := map[[2]string]bool{}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 {
			left[[2]string{f[1], f[2]}] = f[0] == "+"
		}
	}
	code := 0
	for server, alive := range left {
		if !alive {
			continue
		}
		if err := reap(server[0], server[1]); err != nil {
			fmt.Fprintf(os.Stderr, "integration: left behind: %s %s: %v\n", server[0], server[1], err)
			code = 1
		}
	}
	return code
}

func reap(kind, id string) error {
	switch kind {
	case processKind:
		pid, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		return p.Kill()
	case directoryKind:
		return os.RemoveAll(id)
	default:
		return removeContainer(id)
	}
}

func removeContainer(id string) error {
	tclog.SetDefault(tclog.NewNoopLogger())
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	_, err = docker.ContainerRemove(ctx, id, removal)
	return err
}
