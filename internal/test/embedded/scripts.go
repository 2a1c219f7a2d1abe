// Package embedded saves embedded servers (miniredis) work. Such a server compiles a script whenever a client loads
// it, and each client loads several: that would take half of the time of all tests. With Scripts a server gets a
// script when that is called first.
package embedded

import (
	"bufio"
	"io"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Scripts is which of the protocol's scripts a server has.
type Scripts struct {
	quiet *server.Peer // gives scripts to the server, and does not want the answers

	mu     sync.Mutex      // protects loaded; before the server's lock
	loaded map[string]bool // by hash: clients loaded it; true: the server has it, too
}

// NewScripts is for a server that has no scripts.
func NewScripts() *Scripts {
	return &Scripts{quiet: server.NewPeer(bufio.NewWriter(io.Discard)), loaded: make(map[string]bool)}
}

// Hook must be called by the server's hook ahead of each command. It reports whether it has answered the command.
func (s *Scripts) Hook(to *server.Server, c *server.Peer, cmd string, args []string) (done bool) {
	switch {
	case c == s.quiet:
		return false
	case cmd == "SCRIPT" && len(args) > 0:
		return s.answer(to, c, args)
	case cmd == "EVALSHA" && len(args) > 0:
		s.provide(to, args[0])
	}
	return lasting(to, c, cmd, args)
}

// IsOwn reports whether a command is one by which the server gets a script.
func (s *Scripts) IsOwn(c *server.Peer) bool { return c == s.quiet }

// answer answers SCRIPT FLUSH, and SCRIPT LOAD of one of the protocol's scripts.
func (s *Scripts) answer(to *server.Server, c *server.Peer, args []string) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.EqualFold(args[0], "FLUSH") {
		clear(s.loaded)
		to.Dispatch(s.quiet, []string{"SCRIPT", "FLUSH"})
		c.WriteOK()
		return true
	}
	for _, known := range protocol.Loaded {
		if len(args) == 2 && known.Text() == args[1] {
			sha := known.SHA().(string)
			if _, before := s.loaded[sha]; !before {
				s.loaded[sha] = false // it is compiled at its first call
			}
			c.WriteBulk(sha)
			return true
		}
	}
	return false
}

// provide gives the server a script that is about to be called, if a client has loaded it.
func (s *Scripts) provide(to *server.Server, sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if has, loaded := s.loaded[sha]; has || !loaded {
		return
	}
	s.loaded[sha] = true
	for _, known := range protocol.Loaded {
		if known.SHA() == sha {
			to.Dispatch(s.quiet, []string{"SCRIPT", "LOAD", known.Text().(string)})
		}
	}
}
