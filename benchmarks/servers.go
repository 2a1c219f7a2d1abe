package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	serverStart = 5 * time.Second // how long a server may take to answer
	portTries   = 5               // how often a port may be lost to another process
)

// servers are redis-server processes on free loopback ports. They keep nothing
// on disk and end with this process at the latest.
type servers struct {
	addrs []string
	procs []*exec.Cmd
	dir   string
	quit  chan struct{} // closed by stop
	ended chan struct{} // closed when all processes have ended
}

// startServers starts n of them and returns when all answer.
func startServers(n int) (*servers, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("the benchmarks need redis-server: %w", err)
	}
	dir, err := os.MkdirTemp("", "redlock-bench-")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir, quit: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go s.keep(binary, n, started)
	if err := <-started; err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// keep starts the servers, and ends them at stop. Where the system ends a child
// with its parent, it means the parent's thread: so this goroutine keeps one
// thread for itself for as long as the servers run.
func (s *servers) keep(binary string, n int, started chan<- error) {
	runtime.LockOSThread()
	defer close(s.ended)
	started <- s.startAll(binary, n)
	<-s.quit
	for _, p := range s.procs {
		_ = p.Process.Kill() // they have nothing to save
		_ = p.Wait()         // says that it was killed
	}
}

func (s *servers) startAll(binary string, n int) error {
	for failures := 0; len(s.addrs) < n; {
		if err := s.startOne(binary); err != nil {
			if failures++; failures == portTries {
				return err
			}
		}
	}
	return nil
}

// startOne starts a server on a port at which nobody listened a moment ago.
func (s *servers) startOne(binary string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	host, port, err := net.SplitHostPort(addr)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	cmd := exec.Command(binary, "--bind", host, "--port", port, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--logfile", "", "--daemonize", "no")
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := awaitServer(addr, cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	s.procs = append(s.procs, cmd)
	s.addrs = append(s.addrs, addr)
	return nil
}

// stop ends the servers.
func (s *servers) stop() {
	close(s.quit)
	<-s.ended
	_ = os.RemoveAll(s.dir) // an empty folder in the system's temporary one
}

// cpuTime returns the CPU time of all servers. A server that does not answer counts as 0.
func (s *servers) cpuTime() time.Duration {
	var seconds float64
	for _, addr := range s.addrs {
		info, err := serverInfo(addr, "cpu")
		if err != nil {
			continue
		}
		for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
			used, _ := strconv.ParseFloat(infoField(info, field), 64)
			seconds += used
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// awaitServer returns when the process of that pid answers at addr.
func awaitServer(addr string, pid int) error {
	var err error
	for begin := time.Now(); time.Since(begin) < serverStart; time.Sleep(5 * time.Millisecond) {
		var info string
		if info, err = serverInfo(addr, "server"); err != nil {
			continue
		}
		if infoField(info, "process_id") != fmt.Sprint(pid) {
			return fmt.Errorf("another server took %s", addr)
		}
		return nil
	}
	return fmt.Errorf("redis-server at %s did not answer within %v: %w", addr, serverStart, err)
}

func serverInfo(addr, section string) (string, error) {
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return redis.String(conn.Do("INFO", section))
}

// infoField finds one value in the text that INFO answers.
func infoField(info, field string) string {
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	return ""
}

// version returns the first server's version of Redis.
func (s *servers) version() (string, error) {
	info, err := serverInfo(s.addrs[0], "server")
	return infoField(info, "redis_version"), err
}

// scriptCalls is how many scripts the first n servers have run since they started.
func (s *servers) scriptCalls(n int) (int, error) {
	sum := 0
	for _, addr := range s.addrs[:n] {
		info, err := serverInfo(addr, "commandstats")
		if err != nil {
			return 0, err
		}
		for _, kind := range []string{"eval", "evalsha"} {
			var calls int
			if _, err := fmt.Sscanf(infoField(info, "cmdstat_"+kind), "calls=%d,", &calls); err == nil {
				sum += calls
			}
		}
	}
	return sum, nil
}
