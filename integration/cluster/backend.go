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
	backendEnv = "REDLOCK_TEST_BACKEND" // docker or process; empty: the first of them that is available
	imageEnv   = "REDLOCK_TEST_IMAGE"   // the Redis image to use with Docker

	startTimeout = 2 * time.Minute // generous: it only bounds a broken machine
)

// backend starts servers of one kind.
type backend interface {
	describe() string // what the servers are, in the plural, for the line that Main prints
	create(index int) (server, error)
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
	log() string                        // the server's last words, to explain a failed start
	remove() error
}

func chooseBackend() (backend, error) {
	switch want := os.Getenv(backendEnv); want {
	case "process":
		return newProcessBackend()
	case "docker":
		return newDockerBackend()
	case "":
		b, dockerErr := newDockerBackend()
		if dockerErr == nil {
			return b, nil
		}
		p, err := newProcessBackend()
		if err != nil {
			return nil, errors.Join(dockerErr, err)
		}
		return p, nil
	default:
		return nil, fmt.Errorf("%s=%q: want docker or process", backendEnv, want)
	}
}

var ports struct {
	sync.Mutex
	taken map[int]bool
}

// freePort picks a port that stays free while its server is down: it lies below
// the range from which the kernel serves outgoing connections.
func freePort() (int, error) {
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
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		ports.taken[p] = true
		return p, ln.Close()
	}
	return 0, errors.New("no free port between 30000 and 32700")
}
