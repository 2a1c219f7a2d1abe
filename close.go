package redlock

import "slices"

const (
	// Close sends each node a PING behind every closeBatch releases, and sends no more
	// releases while a node has maxPings unanswered PINGs. So some two thousand releases
	// are under way at a node: a few times as many as its connection carries at once,
	// and far fewer than would overload it.
	closeBatch = 256
	maxPings   = 8
)

// Close ends the client: calls that wait return ErrClosed, new ones fail with it, and
// leases that are held end with it, and their contexts; they are no longer renewed. All
// of them are released, however many they are.
//
// Close waits until the nodes have executed the releases. Mostly that takes one round
// trip. A connection carries some five hundred releases in a round trip, so with many
// leases Close takes as long as the slowest node that makes progress, but no longer than
// the longest ttl of the leases. Close gives up a node that answers nothing for a node
// timeout, so nodes that are frozen or die meanwhile cost about one node timeout in all;
// a node that is down costs none. Keys that such a node has not deleted end there with
// their ttl. Close also waits for a ForceUnlock that is under way.
//
// A lease under which a Do is running is released when its fn returns, so that no other
// caller gets the lock before, or ends with its validity; its connections live until
// then. Close also releases a lease that was dropped without Unlock, if the garbage
// collector has not come first. Further calls do nothing.
func (c *Client) Close() error {
	c.closed.Do(func() {
		c.mu.Lock()
		close(c.closing)
		c.mu.Unlock()
		c.calls.Wait()   // attempts that were under way are granted or rolled back now
		c.waiting.Wait() // waiters have left the queue
		var idle, working []*holding
		ttl := c.opts.ttl
		for _, h := range c.keeper.close() {
			ttl = max(ttl, h.mutex.opts.ttl)
			if h.shut() {
				working = append(working, h)
			} else {
				idle = append(idle, h)
			}
		}
		d := c.newDrain(ttl)
		d.release(idle)
		d.finish()
		if len(working) == 0 {
			c.tearDown()
			return
		}
		go func() { // ends with the last Do, or its lease's validity
			for _, h := range working {
				h.awaitEnd()
			}
			c.newDrain(ttl).finish()
			c.tearDown()
		}()
	})
	return nil
}

// release sends the releases of leases that shut has ended. It sends them as fast as the
// nodes answer, so that neither the nodes nor this process hold all of them at once.
func (d *drain) release(leases []*holding) {
	for batch := range slices.Chunk(leases, closeBatch) {
		at := d.awaited()
		var ballots []*ballot
		for _, h := range batch {
			if b := h.giveBack(at); b != nil {
				ballots = append(ballots, b)
			}
		}
		for _, b := range ballots {
			b.Flush(false)
		}
		d.ping()
		d.await(maxPings - 1)
	}
}

// tearDown ends the client's goroutines and connections.
func (c *Client) tearDown() {
	c.end()
	c.running.Wait()
	for _, p := range c.owned {
		_ = p.Close()
	}
}
