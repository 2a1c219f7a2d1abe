package limiter

import "time"

// turn is a caller that waits.
type turn struct {
	urgent  bool          // it comes ahead of those that are not
	asked   time.Duration // when its call began
	serial  uint64        // orders callers that asked at the same instant
	index   int           // in the queue; -1: it has got its turn
	granted chan Attempt  // has room for the one value that it gets
}

// turnQueue is a heap of the callers that wait: of those that are urgent, and then of the others, the one that
// asked first is the first.
type turnQueue []*turn

func (q turnQueue) Len() int { return len(q) }

func (q turnQueue) Less(i, j int) bool {
	if q[i].urgent != q[j].urgent {
		return q[i].urgent
	}
	if q[i].asked != q[j].asked {
		return q[i].asked < q[j].asked
	}
	return q[i].serial < q[j].serial
}

func (q turnQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *turnQueue) Push(x any) {
	t := x.(*turn)
	t.index = len(*q)
	*q = append(*q, t)
}

func (q *turnQueue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = -1
	return t
}
