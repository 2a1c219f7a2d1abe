package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// processes runs each server as a redis-server process of this machine.
type processes struct {
	binary string
	dir    string
}

func newProcessBackend() (backend, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("no Docker engine to use and no redis-server installed: %w", err)
	}
	dir, err := os.MkdirTemp("", "redlock-integration-")
	if err != nil {
		return nil, err
	}
	return &processes{binary: binary, dir: dir}, remember(directoryKind, dir)
}

func (b *processes) describe() string { return "redis-server processes of " + b.binary }

func (b *processes) close() error {
	if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	return forget(directoryKind, b.dir)
}

func (b *processes) create(index int) (server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, strconv.Itoa(index))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return &process{binary: b.binary, dir: dir, port: strconv.Itoa(port)}, nil
}

type process struct {
	binary string
	dir    string
	port   string
	cmd    *exec.Cmd
	dead   chan struct{} // closed when cmd has ended
}

func (p *process) addr() string { return "127.0.0.1:" + p.port }

func (p *process) peer() (host, port string, _ error) { return "127.0.0.1", p.port, nil }

func (p *process) logFile() string { return filepath.Join(p.dir, "log") }

func (p *process) start(conf settings) error {
	conf.bind, conf.port, conf.dir = "127.0.0.1", p.port, p.dir
	file := filepath.Join(p.dir, "redis.conf")
	if err := os.WriteFile(file, []byte(conf.String()), 0o600); err != nil {
		return err
	}
	out, err := os.Create(p.logFile())
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.binary, file)
	cmd.Stdout, cmd.Stderr = out, out
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.dead = cmd, make(chan struct{})
	go p.wait(cmd, p.dead)
	return remember(processKind, strconv.Itoa(cmd.Process.Pid))
}

func (p *process) wait(cmd *exec.Cmd, dead chan<- struct{}) {
	_ = cmd.Wait() // killed is how it is meant to end
	close(dead)
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.dead
	return forget(processKind, strconv.Itoa(p.cmd.Process.Pid))
}

func (p *process) freeze() error { return FreezeProcess(p.cmd.Process) }

func (p *process) thaw() error { return ThawProcess(p.cmd.Process) }

func (p *process) log() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *process) remove() error {
	if p.cmd == nil {
		return nil
	}
	return p.kill()
}
