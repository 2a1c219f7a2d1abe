package pipe

// fifo is a queue of calls in a ring, which grows as needed and does not shrink.
type fifo struct {
	ring []*Call // its length is a power of two
	head int
	n    int
}

func (f *fifo) len() int { return f.n }

func (f *fifo) at(i int) *Call { return f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo) front() *Call { return f.at(0) }

func (f *fifo) push(c *Call) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = c
	f.n++
}

func (f *fifo) pop() *Call {
	c := f.ring[f.head]
	f.ring[f.head] = nil
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	return c
}

// drain empties the ring and returns its calls, in order.
func (f *fifo) drain() []*Call {
	all := make([]*Call, f.n)
	for i := range all {
		all[i] = f.at(i)
	}
	*f = fifo{}
	return all
}

func (f *fifo) grow() {
	ring := make([]*Call, max(16, 2*len(f.ring)))
	for i := range f.n {
		ring[i] = f.at(i)
	}
	f.ring, f.head = ring, 0
}
