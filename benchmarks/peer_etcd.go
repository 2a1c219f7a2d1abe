//go:build full

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	etcdName    = "etcd"
	etcdMembers = 3
	etcdTTL     = 10 // seconds
)

// etcdEndpoints are the members' addresses, once they are started.
var etcdEndpoints []string

var etcdThree = contender{
	name: etcdName,
	about: "concurrency.Mutex of etcd" + versionOf("go.etcd.io/etcd/client/v3") + ", three members in one process beside the client's, " +
		"default settings (each write reaches the disk), a session for each lock held at once, used again",
	kind:  foreign,
	start: startEtcd,
	open:  func(site) (peer, error) { return openEtcd() },
}

// startEtcd starts this program again, as the server.
func startEtcd() (func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serveVariable+"="+etcdName)
	in, err := cmd.StdinPipe() // its end is what ends the server
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("etcd did not start: %w", err)
	}
	etcdEndpoints = strings.Split(strings.TrimSpace(line), ",")
	return func() {
		_ = in.Close() // so that it removes what it has on the disk
		select {
		case <-p.ended:
		case <-time.After(10 * time.Second):
			p.stop()
		}
	}, nil
}

// serveEtcd runs the members until in ends, and writes their addresses to out.
func serveEtcd(in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "redlock-bench-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	configs, endpoints, err := etcdConfigs(dir)
	if err != nil {
		return err
	}
	members := make([]*embed.Etcd, len(configs))
	errs := make([]error, len(configs))
	var group sync.WaitGroup
	for i, c := range configs { // together: each waits for a majority
		group.Go(func() { members[i], errs[i] = embed.StartEtcd(c) })
	}
	group.Wait()
	for i, m := range members {
		if errs[i] != nil {
			return errs[i]
		}
		defer m.Close()
		select {
		case <-m.Server.ReadyNotify():
		case <-time.After(foreignStart):
			return fmt.Errorf("member %d is not ready after %v", i, foreignStart)
		}
	}
	fmt.Fprintln(out, strings.Join(endpoints, ","))
	_, _ = io.Copy(io.Discard, in) // until the parent closes it, or ends
	return nil
}

func etcdConfigs(dir string) (configs []*embed.Config, endpoints []string, err error) {
	var cluster []string
	for i := range etcdMembers {
		client, err := freeAddr()
		if err != nil {
			return nil, nil, err
		}
		peer, err := freeAddr()
		if err != nil {
			return nil, nil, err
		}
		c := embed.NewConfig()
		c.Name = fmt.Sprintf("m%d", i)
		c.Dir = filepath.Join(dir, c.Name)
		c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		c.ListenClientUrls = []url.URL{{Scheme: "http", Host: client}}
		c.AdvertiseClientUrls = c.ListenClientUrls
		c.ListenPeerUrls = []url.URL{{Scheme: "http", Host: peer}}
		c.AdvertisePeerUrls = c.ListenPeerUrls
		cluster = append(cluster, c.Name+"=http://"+peer)
		endpoints = append(endpoints, "http://"+client)
		configs = append(configs, c)
	}
	for _, c := range configs {
		c.InitialCluster = strings.Join(cluster, ",")
	}
	return configs, endpoints, nil
}

// etcdPeer has one connection and as many sessions as are locked with at once.
type etcdPeer struct {
	client *clientv3.Client
	idle   chan *concurrency.Session
}

func openEtcd() (*etcdPeer, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: etcdEndpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	p := &etcdPeer{client: client, idle: make(chan *concurrency.Session, mostGoroutines)}
	if _, err := client.Get(context.Background(), "ready"); err != nil {
		_ = client.Close()
		return nil, err
	}
	return p, nil
}

// session is one that no other caller has: two of the same session would both
// hold a lock.
func (p *etcdPeer) session() (*concurrency.Session, error) {
	select {
	case s := <-p.idle:
		return s, nil
	default:
		return concurrency.NewSession(p.client, concurrency.WithTTL(etcdTTL))
	}
}

func (p *etcdPeer) giveBack(s *concurrency.Session) {
	select {
	case p.idle <- s:
	default:
		_ = s.Close()
	}
}

func (p *etcdPeer) lock(ctx context.Context, name string) (held, error) {
	s, err := p.session()
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, "/"+name)
	if err := m.Lock(ctx); err != nil {
		p.giveBack(s)
		return nil, err
	}
	return etcdHeld{p, s, m}, nil
}

// close leaves the sessions' leases to their ttl: nothing is held by them.
func (p *etcdPeer) close() error {
	for {
		select {
		case s := <-p.idle:
			s.Orphan()
		default:
			return p.client.Close()
		}
	}
}

type etcdHeld struct {
	peer    *etcdPeer
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (h etcdHeld) Unlock(ctx context.Context) error {
	err := h.mutex.Unlock(ctx)
	h.peer.giveBack(h.session)
	return err
}
