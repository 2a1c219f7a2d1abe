package redlocktest

import (
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
)

// A stopped node must find its port free when it starts again, and until then no other
// server may answer there: a client would mistake another test's node for the stopped one.
// So a process claims blocks of ports, by listening on the first one of each, and gives no
// port to two of its nodes at the same time. Other processes do not use these blocks.
//
// Ports in this range are below those that Linux, macOS and Windows use for outgoing
// connections, so no client gets one by accident meanwhile.
const (
	firstPort = 20000
	lastPort  = 29999
	blockSize = 64
	maxClaims = 100 // how many blocks a process tries to claim
)

// ports are the ports of this process.
var ports portKeeper

// portKeeper gives each node a port of its own.
type portKeeper struct {
	mu     sync.Mutex // protects what follows
	blocks []*portBlock
}

// portBlock is a claimed block.
type portBlock struct {
	first int
	claim net.Listener // on the first port
	next  int          // the port to try first: a returned port is not used again at once
	used  map[int]bool
}

// take listens on a port that no other node gets before it is returned.
func (k *portKeeper) take() (net.Listener, int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range k.blocks {
		if listener, port := b.take(); listener != nil {
			return listener, port, nil
		}
	}
	var err error
	for range maxClaims {
		first := firstPort + blockSize*mathrand.IntN((lastPort+1-firstPort)/blockSize)
		var claim net.Listener
		if claim, err = listenOn(first); err != nil {
			continue
		}
		b := &portBlock{first: first, claim: claim, next: first + 1, used: make(map[int]bool)}
		if listener, port := b.take(); listener != nil {
			k.blocks = append(k.blocks, b)
			return listener, port, nil
		}
		claim.Close()
	}
	return nil, 0, fmt.Errorf("no free ports after %d tries: %w", maxClaims, err)
}

// giveBack returns a port, and its block if none of the block's ports is in use.
func (k *portKeeper) giveBack(port int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blocks = slices.DeleteFunc(k.blocks, func(b *portBlock) bool {
		delete(b.used, port)
		if len(b.used) == 0 {
			b.claim.Close()
		}
		return len(b.used) == 0
	})
}

// take listens on a free port of the block; it returns nil if there is none.
func (b *portBlock) take() (net.Listener, int) {
	for range blockSize - 1 {
		port := b.next
		if b.next++; b.next == b.first+blockSize {
			b.next = b.first + 1
		}
		if b.used[port] {
			continue
		}
		if listener, err := listenOn(port); err == nil {
			b.used[port] = true
			return listener, port
		}
	}
	return nil, 0
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
