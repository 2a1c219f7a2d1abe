//go:build full

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"
)

func init() { contenders = append(contenders, etcdThree, zookeeperThree, memcachedOne) }

// errNotHere is a peer whose servers the machine does not have.
var errNotHere = errors.New("not on this machine")

const foreignStart = 60 * time.Second // how long foreign servers may take to answer

// serveVariable makes this program the server of a foreign peer: a process of its
// own, so that the client's CPU and allocations are the client's alone.
const serveVariable = "REDLOCK_BENCH_SERVE"

// serveForeign is the server, where this process is to be one.
func serveForeign() bool {
	if os.Getenv(serveVariable) != etcdName {
		return false
	}
	if err := serveEtcd(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
	return true
}

// find is the first of the programs that the machine has.
func find(programs ...string) (string, error) {
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s was not found", errNotHere, programs[0])
}

// process is a server of a foreign peer. A goroutine waits for it, so that its
// end is noticed.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd, make(chan struct{})}
	started := make(chan error)
	go p.keep(started)
	return p, <-started
}

// keep starts the process and waits for it on one thread: where the system ends a
// child with its parent, it means the parent's thread.
func (p *process) keep(started chan<- error) {
	runtime.LockOSThread()
	defer close(p.ended)
	endWithParent(p.cmd)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // says that it was killed
	}
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // fails where it has ended
	<-p.ended
}

// awaitPort returns when somebody listens at addr.
func awaitPort(addr string) error {
	var err error
	for begin := time.Now(); time.Since(begin) < foreignStart; time.Sleep(50 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", addr, time.Second); err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("nobody listens at %s after %v: %w", addr, foreignStart, err)
}
