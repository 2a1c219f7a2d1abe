package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// processes runs each server as a process of this machine.
type processes struct {
	binaries []string
	dir      string
}

func newProcessBackend() (backend, error) {
	binaries, err := findPrograms(os.Getenv(serversEnv))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlock-integration-")
	if err != nil {
		return nil, err
	}
	return &processes{binaries, dir}, remember(directoryKind, dir)
}

// findPrograms returns the programs of a list of paths; of an empty one, redis-server.
func findPrograms(list string) ([]string, error) {
	var found []string
	for _, path := range filepath.SplitList(list) {
		if path == "" {
			continue
		}
		program, err := exec.LookPath(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", serversEnv, err)
		}
		if program, err = filepath.Abs(program); err != nil {
			return nil, fmt.Errorf("%s: %w", serversEnv, err)
		}
		found = append(found, program)
	}
	if len(found) > 0 {
		return found, nil
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("no redis-server installed: %w", err)
	}
	return []string{program}, nil
}

func (b *processes) programs() (names []string) {
	for _, path := range b.binaries {
		names = append(names, filepath.Base(path))
	}
	return names
}

func (b *processes) describe(program int) string { return "processes of " + b.binaries[program] }

func (b *processes) close() error {
	if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	return forget(directoryKind, b.dir)
}

func (b *processes) create(index, program int) (server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, strconv.Itoa(index))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return &process{binary: b.binaries[program], dir: dir, port: strconv.Itoa(port)}, nil
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
	_ = cmd.Wait() // being killed is how it is meant to end
	close(dead)
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.dead
	return forget(processKind, strconv.Itoa(p.cmd.Process.Pid))
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

func (p *process) ended() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
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
