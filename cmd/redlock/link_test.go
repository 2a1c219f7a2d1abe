package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is a connection to a node that can freeze: then it passes nothing on.
type link struct {
	url    string
	frozen sync.RWMutex
	stands atomic.Bool // it is frozen now
	waits  atomic.Bool // something has come that the frozen link did not pass on
}

func newLink(t *testing.T, node string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return linkFrom(t, listener, node)
}

// linkFrom makes a link for the connections that a listener accepts.
func linkFrom(t *testing.T, listener net.Listener, node string) *link {
	t.Helper()
	to, err := url.Parse(node)
	require.NoError(t, err)
	l := &link{url: "redis://" + listener.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to.Host)
			if err != nil {
				_ = near.Close()
				continue
			}
			context.AfterFunc(t.Context(), func() { _, _ = near.Close(), far.Close() }) // before the cleanups
			all.Go(func() { l.pass(near, far) })
			all.Go(func() { l.pass(far, near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.thaw()
		all.Wait()
	})
	return l
}

func (l *link) pass(from io.Reader, to io.WriteCloser) {
	defer to.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !l.frozen.TryRLock() {
			l.waits.Store(true)
			l.frozen.RLock()
		}
		_, err = to.Write(buffer[:n])
		l.frozen.RUnlock()
		if err != nil {
			return
		}
	}
}

func (l *link) freeze() {
	l.frozen.Lock()
	l.stands.Store(true)
}

// thaw has the link pass on again. It does nothing to one that is not frozen.
func (l *link) thaw() {
	if l.stands.Swap(false) {
		l.frozen.Unlock()
	}
}
