package simredis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Server is one Redis master.
type Server struct {
	world *World
	index int
	clock func(trueTime time.Duration) time.Duration // since 1970

	store   store
	runs    int
	loaded  map[string]string // scripts' texts, by name
	conns   []*stream
	clients int64

	frozen bool // it executes nothing
	down   bool // it does not run: dials are refused
	silent bool // with down: dials are not answered

	replaced []string // the values that its last script has replaced by SET

	refusal   Refusal // its reply to some commands; "" while it is healthy
	forbidden string  // a command that it always refuses; "": none

	service time.Duration // that each command takes
	backlog []arrival     // commands that have arrived, and wait for their turn
	serving bool          // the execution of the first of them is on the agenda
}

// Server adds a server. clock returns the time that its clock shows, and may depend on the
// true time alone.
func (w *World) Server(index int, clock func(trueTime time.Duration) time.Duration) *Server {
	return &Server{world: w, index: index, clock: clock, store: make(store), loaded: make(map[string]string)}
}

func (s *Server) String() string { return fmt.Sprintf("sim-%d", s.index) }

// now is the server's clock, in milliseconds.
func (s *Server) now() int64 { return s.clock(s.world.now()).Milliseconds() }

// Keys returns the keys that have not expired.
func (s *Server) Keys() []Key {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.store.keys(s.now())
}

// Replaced returns the values that the server's last script has replaced by others, with SET. Only the world's
// log may call it, when it is called for that script.
func (s *Server) Replaced() []string { return s.replaced }

// Snapshot returns a copy of the memory, as a server's disk would have it.
func (s *Server) Snapshot() any {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.store.copy()
}

// Freeze stops the server from executing, or lets it go on.
func (s *Server) Freeze(frozen bool) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.frozen = frozen
	for _, c := range s.conns {
		c.schedule()
	}
	s.serve()
}

// Crash ends the server's run. Messages on their way there are lost. If silent is set, the
// clients are not informed, as when the machine loses its power; otherwise the connections
// end.
func (s *Server) Crash(silent bool) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.down, s.silent, s.frozen, s.refusal = true, silent, false, ""
	for _, c := range s.conns {
		c.leaveServer(silent)
	}
	s.conns, s.backlog = nil, nil
}

// Start begins another run after a crash, with the data of a snapshot; nil: without data.
func (s *Server) Start(disk any) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if !s.down {
		return
	}
	s.down, s.silent = false, false
	s.runs++
	s.clients = 0
	clear(s.loaded)
	s.store = make(store)
	if saved, ok := disk.(store); ok {
		s.store = saved.copy()
	}
}

// Wipe is FLUSHALL.
func (s *Server) Wipe() {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	clear(s.store)
}

// FlushScripts is SCRIPT FLUSH.
func (s *Server) FlushScripts() {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	clear(s.loaded)
}

// Drop deletes one key, as an operator might.
func (s *Server) Drop(key string) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	delete(s.store, key)
}

// execute executes a command.
func (s *Server) execute(c *stream, args []string) any {
	if len(args) == 0 {
		return redis.Error("ERR empty command")
	}
	switch command := strings.ToUpper(args[0]); command {
	case "PING":
		if c.listens {
			return []any{[]byte("pong"), []byte("")}
		}
		return status("PONG")
	case "INFO":
		return []byte(fmt.Sprintf("# Server\r\nredis_version:7.2.0\r\nrun_id:run-%d-%d\r\nrole:master\r\n", s.index, s.runs))
	case "TIME":
		return s.time()
	case "CLIENT":
		return s.client(c, args[1:])
	case "SCRIPT":
		s.loaded[protocol.HashOf(args[2])] = args[2]
		return []byte(protocol.HashOf(args[2]))
	case "EVAL", "EVALSHA":
		return s.script(command, args[1:])
	case "SUBSCRIBE":
		if c.link.deaf {
			return redis.Error(Forbidden)
		}
		c.listens = true
		return s.subscribe(c, args)
	case "UNSUBSCRIBE":
		return s.subscribe(c, args)
	}
	if err, refused := s.refuses(args[0], false); refused {
		return err
	}
	if reply, ok := s.data(args); ok {
		return reply
	}
	return redis.Error(fmt.Sprintf("ERR the simulation does not know %q", args))
}

// time is TIME: seconds and microseconds.
func (s *Server) time() any {
	micros := s.clock(s.world.now()).Microseconds()
	return []any{[]byte(strconv.FormatInt(micros/1e6, 10)), []byte(strconv.FormatInt(micros%1e6, 10))}
}

func (s *Server) script(command string, args []string) any {
	if s.refusal == Busy {
		return redis.Error(Busy)
	}
	text := args[0]
	if command == "EVALSHA" {
		known, ok := s.loaded[text]
		if !ok {
			return redis.Error("NOSCRIPT No matching script. Please use EVAL.")
		}
		text = known
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 || n > len(args)-2 {
		return redis.Error("ERR Number of keys can't be greater than number of args")
	}
	return s.world.scripts.run(s, text, args[2:2+n], args[2+n:])
}

// client executes CLIENT ID and CLIENT KILL ID.
func (s *Server) client(c *stream, args []string) any {
	if s.world.noClient {
		return redis.Error("NOPERM this user has no permissions to run the 'client' command")
	}
	if strings.EqualFold(args[0], "ID") {
		return c.id
	}
	for _, other := range s.conns {
		if len(args) == 3 && strconv.FormatInt(other.id, 10) == args[2] {
			other.leaveServer(false)
			s.forget(other)
			return int64(1)
		}
	}
	return int64(0)
}

// forget removes a connection from the server's list.
func (s *Server) forget(c *stream) {
	for i, other := range s.conns {
		if other == c {
			s.conns = append(append([]*stream(nil), s.conns[:i]...), s.conns[i+1:]...)
			return
		}
	}
}

// publish sends a message to the connections that are subscribed to a channel.
func (s *Server) publish(channel, message string) any {
	all := s.subscribed(channel)
	for _, c := range all {
		c.reply([]any{[]byte("message"), []byte(channel), []byte(message)}, true)
	}
	return int64(len(all))
}

// subscribe executes SUBSCRIBE or UNSUBSCRIBE, which have a reply for each channel: the last one is returned.
func (s *Server) subscribe(c *stream, args []string) (reply any) {
	kind := strings.ToLower(args[0])
	for i, channel := range args[1:] {
		c.channels = slices.DeleteFunc(c.channels, func(other string) bool { return other == channel })
		if kind == "subscribe" {
			c.channels = append(c.channels, channel)
		}
		reply = []any{[]byte(kind), []byte(channel), int64(len(c.channels))}
		if i < len(args)-2 {
			c.reply(reply, true)
		}
	}
	return reply
}

// subscribed returns the connections that are subscribed to a channel, as far as the server knows: it does not know the end of
// one that leads nowhere.
func (s *Server) subscribed(channel string) (all []*stream) {
	for _, c := range s.conns {
		if slices.Contains(c.channels, channel) {
			all = append(all, c)
		}
	}
	return all
}
