package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	confInside = "/data/redis.conf"
	portInside = "6379"
)

// containers runs each server in a Docker container.
type containers struct {
	docker *testcontainers.DockerClient
	image  string
	host   string // where the published ports are
	flat   bool   // whether the engine can put a container beside this machine's processes
}

// engineTimeout bounds what a test run asks of the engine before its first test.
const engineTimeout = 20 * time.Second

// cpuShares is a server's part of the processors, where a process has 1024.
const cpuShares = 8192

// newDockerBackend uses the engine. If it has no image, none is named, and fromProgram, one is made of this machine's
// redis-server.
func newDockerBackend(fromProgram bool) (backend, error) {
	// Its log lines for every container would hide the tests' own output.
	tclog.SetDefault(tclog.NewNoopLogger())
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker engine: %w", err)
	}
	if _, err := docker.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, fmt.Errorf("no Docker engine: %w", err)
	}
	host, err := publishedAt(ctx)
	if err != nil {
		return nil, err
	}
	image, err := findImage(ctx, docker)
	if err != nil && fromProgram && os.Getenv(imageEnv) == "" {
		image, err = localImage(ctx, docker)
	}
	if err != nil {
		return nil, err
	}
	info, err := docker.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, fmt.Errorf("no Docker engine: %w", err)
	}
	return &containers{docker: docker, image: image, host: host, flat: info.Info.CgroupDriver == "cgroupfs"}, nil
}

func publishedAt(ctx context.Context) (string, error) {
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", err
	}
	defer provider.Close()
	host, err := provider.DaemonHost(ctx)
	if host == "localhost" {
		host = loopback.String() // ports are published for IPv4 only
	}
	return host, err
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// place binds the server to this host port: a port that Docker chooses would change with
// every restart. With an engine on this machine the port is on loopback only.
//
// By default the engine keeps its containers in one group, to which the kernel may give no more of the
// processors than to one process. Fifty tools and a few busy processes then leave each server a hundredth
// of a processor, and no answer comes in time. Where the engine can, each server is a group of its own.
func (b *containers) place(port int) func(*container.HostConfig) {
	binding := network.PortBinding{HostPort: strconv.Itoa(port)}
	if b.host == loopback.String() {
		binding.HostIP = loopback
	}
	return func(conf *container.HostConfig) {
		if b.flat {
			conf.CgroupParent, conf.CPUShares = "/", cpuShares
		}
		conf.PortBindings = network.PortMap{network.MustParsePort(portInside): {binding}}
	}
}

func (b *containers) programs() []string { return []string{b.image} }

func (b *containers) describe(int) string { return "Docker containers of the image " + b.image }

func (b *containers) close() error { return b.docker.Close() }

func (b *containers) create(int, int) (server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	c := &dockerized{docker: b.docker, address: net.JoinHostPort(b.host, strconv.Itoa(port))}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c.container, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:              b.image,
			Entrypoint:         []string{"redis-server"},
			Cmd:                []string{confInside},
			ExposedPorts:       []string{portInside},
			HostConfigModifier: b.place(port),
		},
	})
	if err != nil {
		// Even then there may be a container.
		return nil, errors.Join(err, testcontainers.TerminateContainer(c.container))
	}
	return c, remember(containerKind, c.container.GetContainerID())
}

type dockerized struct {
	docker    *testcontainers.DockerClient
	container testcontainers.Container
	address   string
}

func (c *dockerized) addr() string { return c.address }

func (c *dockerized) peer() (host, port string, _ error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ip, err := c.container.ContainerIP(ctx)
	return ip, portInside, err
}

func (c *dockerized) start(conf settings) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conf.bind, conf.port, conf.dir = "0.0.0.0", portInside, "/data"
	if err := c.container.CopyToContainer(ctx, []byte(conf.String()), confInside, 0o644); err != nil {
		return err
	}
	return c.container.Start(ctx)
}

func (c *dockerized) kill() error {
	if c.ended() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dead := c.docker.ContainerWait(ctx, c.container.GetContainerID(), client.ContainerWaitOptions{})
	if err := c.signal("KILL"); err != nil {
		return err
	}
	select {
	case <-dead.Result:
		return nil
	case err := <-dead.Error:
		return err
	}
}

// pid is not needed: Docker starts no container whose port is taken.
func (c *dockerized) pid() string { return "" }

func (c *dockerized) ended() bool {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	state, err := c.container.State(ctx)
	return err == nil && !state.Running
}

// freeze sends the signal from outside the container: its first process ignores a SIGSTOP
// from within.
func (c *dockerized) freeze() error { return c.signal("STOP") }

func (c *dockerized) thaw() error { return c.signal("CONT") }

func (c *dockerized) signal(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_, err := c.docker.ContainerKill(ctx, c.container.GetContainerID(), client.ContainerKillOptions{Signal: name})
	return err
}

func (c *dockerized) log() string {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	logs, err := c.container.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	text, err := io.ReadAll(logs)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (c *dockerized) remove() error {
	if c.container == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	id := c.container.GetContainerID()
	if _, err := c.docker.ContainerRemove(ctx, id, removal); err != nil {
		return err
	}
	return forget(containerKind, id)
}

var removal = client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}
