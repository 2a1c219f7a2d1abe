package simredis

import "time"

// arrival is a command that has reached the server.
type arrival struct {
	stream  *stream
	message message
}

// Slow makes each command take so long from now on. The server executes one at a time, of all
// connections, in the order of their arrival.
func (s *Server) Slow(service time.Duration) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.service = service
}

// accept executes a command when those that arrived before it are executed.
func (s *Server) accept(c *stream, m message) {
	if s.service == 0 && len(s.backlog) == 0 {
		c.perform(m)
		return
	}
	c.arrived++
	s.backlog = append(s.backlog, arrival{c, m})
	s.serve()
}

// serve posts the execution of the first command that has arrived, unless the server is frozen: then
// Freeze calls serve again.
func (s *Server) serve() {
	if s.serving || s.frozen || len(s.backlog) == 0 {
		return
	}
	s.serving = true
	w := s.world
	w.post(w.awake()+s.service, identity{"", s.index, 0, executing}, func() {
		if s.serving = false; !s.frozen && len(s.backlog) > 0 {
			first := s.backlog[0]
			s.backlog = s.backlog[1:]
			first.stream.arrived--
			if !first.stream.left {
				first.stream.perform(first.message)
				first.stream.leaveIfDone()
			}
		}
		s.serve()
	})
}
