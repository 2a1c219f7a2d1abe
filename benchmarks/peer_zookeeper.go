//go:build full

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	zookeeperMembers = 3
	zookeeperSession = 10 * time.Second
)

// zookeeperAddrs are the members' addresses, once they are started.
var zookeeperAddrs []string

var zookeeperThree = contender{
	name: "zookeeper",
	about: "the lock recipe of go-zookeeper/zk" + versionOf("github.com/go-zookeeper/zk") + ", three members, default settings " +
		"(each write reaches the disk), one session for all callers",
	kind:  foreign,
	start: startZooKeeper,
	open:  func(site) (peer, error) { return openZooKeeper() },
}

// startZooKeeper starts an ensemble by the script that distributions and the
// project itself come with.
func startZooKeeper() (stop func(), err error) {
	script, err := find("zkServer.sh", "/usr/share/zookeeper/bin/zkServer.sh", "/opt/zookeeper/bin/zkServer.sh")
	if err != nil {
		return nil, err
	}
	if _, err := find("java"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlock-bench-zookeeper-")
	if err != nil {
		return nil, err
	}
	var processes []*process
	stop = func() {
		for _, p := range processes {
			p.stop()
		}
		_ = os.RemoveAll(dir) // in the system's temporary folder
	}
	configs, addrs, err := zookeeperConfigs(dir)
	if err != nil {
		stop()
		return nil, err
	}
	for _, c := range configs {
		cmd := exec.Command(script, "start-foreground", c)
		cmd.Env = append(os.Environ(), "ZOO_LOG_DIR="+dir, "JVMFLAGS=-Xmx256m")
		p, err := startProcess(cmd)
		if err != nil {
			stop()
			return nil, err
		}
		processes = append(processes, p)
	}
	zookeeperAddrs = addrs
	for _, addr := range addrs {
		if err := awaitPort(addr); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// zookeeperConfigs writes a folder with zoo.cfg and data for each member.
func zookeeperConfigs(dir string) (configs, addrs []string, err error) {
	var members strings.Builder
	for i := 1; i <= zookeeperMembers; i++ {
		var ports []string
		for range 3 {
			addr, err := freeAddr()
			if err != nil {
				return nil, nil, err
			}
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, nil, err
			}
			ports = append(ports, port)
		}
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", ports[0]))
		fmt.Fprintf(&members, "server.%d=127.0.0.1:%s:%s;127.0.0.1:%s\n", i, ports[1], ports[2], ports[0])
	}
	for i := 1; i <= zookeeperMembers; i++ {
		home := filepath.Join(dir, fmt.Sprint(i))
		data := filepath.Join(home, "data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, nil, err
		}
		config := filepath.Join(home, "zoo.cfg")
		files := map[string]string{
			filepath.Join(data, "myid"): fmt.Sprint(i),
			config: fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\nadmin.enableServer=false\n"+
				"standaloneEnabled=false\ndataDir=%s\n%s", data, members.String()),
		}
		for name, text := range files {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				return nil, nil, err
			}
		}
		configs = append(configs, config)
	}
	return configs, addrs, nil
}

// zookeeperPeer is one session. The recipe's locks are ephemeral nodes of it.
type zookeeperPeer struct {
	conn *zk.Conn
}

// silent drops what the client logs.
type silent struct{}

func (silent) Printf(string, ...any) {}

func openZooKeeper() (*zookeeperPeer, error) {
	conn, events, err := zk.Connect(zookeeperAddrs, zookeeperSession, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	limit := time.After(foreignStart)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &zookeeperPeer{conn}, nil
			}
		case <-limit:
			conn.Close()
			return nil, fmt.Errorf("no session with %v after %v", zookeeperAddrs, foreignStart)
		}
	}
}

// lock waits by the recipe, which does not take a context: a caller that gives up leaves a
// goroutine that unlocks as soon as it has got the lock.
func (p *zookeeperPeer) lock(ctx context.Context, name string) (held, error) {
	l := zk.NewLock(p.conn, "/"+strings.ReplaceAll(name, "/", "-"), zk.WorldACL(zk.PermAll))
	if ctx.Done() == nil {
		return zookeeperHeld{l}, l.Lock()
	}
	got := make(chan error, 1)
	go func() { got <- l.Lock() }()
	select {
	case err := <-got:
		if err != nil {
			return nil, err
		}
		return zookeeperHeld{l}, nil
	case <-ctx.Done():
		go func() {
			if <-got == nil {
				_ = l.Unlock() // else its session's end does
			}
		}()
		return nil, ctx.Err()
	}
}

func (p *zookeeperPeer) close() error {
	p.conn.Close()
	return nil
}

type zookeeperHeld struct {
	lock *zk.Lock
}

func (h zookeeperHeld) Unlock(context.Context) error { return h.lock.Unlock() }
