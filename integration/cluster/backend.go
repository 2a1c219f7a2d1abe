package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

const (
	backendEnv = "REDLOCK_TEST_BACKEND" // docker or process; empty: docker if the engine has the image, else process
	imageEnv   = "REDLOCK_TEST_IMAGE"   // the Redis image to use with Docker
	serversEnv = "REDLOCK_TEST_SERVERS" // paths of server programs, separated like those of PATH; they run as processes

	startTimeout = 2 * time.Minute // generous: it only bounds a broken machine
)

// backend starts servers. It numbers its programs from 0.
type backend interface {
	programs() []string          // names of the programs that it can start
	describe(program int) string // what its servers are, in the plural, for the line that Main prints
	create(index, program int) (server, error)
	close() error
}

// server is one Redis server that can be killed and started again under the same
// address.
type server interface {
	addr() string                       // where tests reach it
	peer() (host, port string, _ error) // where the other servers reach it
	start(conf settings) error          // returns once the server process runs
	kill() error                        // SIGKILL; returns when it is dead
	freeze() error                      // SIGSTOP
	thaw() error                        // SIGCONT
	pid() string                        // of its process, as it knows it; "" if that is not known here
	ended() bool                        // reports whether it has ended, killed or by itself
	log() string                        // the server's last words, to explain a failed start
	remove() error
}

// chooseBackend decides between containers and processes. It takes what is there: make test pulls an image or installs a
// program before.
func chooseBackend() (backend, error) {
	want, servers := os.Getenv(backendEnv), os.Getenv(serversEnv)
	switch {
	case want != "" && want != "docker" && want != "process":
		return nil, fmt.Errorf("%s=%q: want docker or process", backendEnv, want)
	case want == "docker" && servers != "":
		return nil, fmt.Errorf("%s=docker: %s names programs, which run as processes; set one of the two", backendEnv, serversEnv)
	case want == "docker":
		return newDockerBackend(true)
	case want == "process" || servers != "":
		return newProcessBackend()
	}
	containers, noContainers := newDockerBackend(false)
	if noContainers == nil {
		return containers, nil
	}
	if os.Getenv(imageEnv) != "" {
		return nil, noContainers
	}
	processes, err := newProcessBackend()
	if err != nil {
		return nil, fmt.Errorf("the tests need real Redis servers, and neither way is open; \"make test\" makes one ready: %w", errors.Join(noContainers, err))
	}
	return processes, nil
}

var ports struct {
	sync.Mutex
	taken map[int]bool
}

// busOffset is how far a server's port in cluster mode is from the port of its cluster bus.
// Redis 6.2 has no setting for that.
const busOffset = 10000

// FreePort picks a port that stays free while its server is down: it lies below
// the range from which the kernel serves outgoing connections. The port of its cluster bus lies in that
// range, and is free now.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.taken == nil {
		ports.taken = map[int]bool{}
	}
	for range 200 {
		p := 30000 + rand.IntN(2700) // embedded nodes have those below
		if ports.taken[p] {
			continue
		}
		if !isFree(p) || !isFree(p+busOffset) {
			continue
		}
		ports.taken[p] = true
		return p, nil
	}
	return 0, errors.New("no free port between 30000 and 32700")
}

// isFree reports whether a server can listen on this port of loopback.
func isFree(port int) bool {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && ln.Close() == nil
}
