package main

import (
	"math"
	"math/bits"
	"time"
)

const (
	stepBits = 7 // 128 steps for each doubling: no figure is off by more than 0.8 %
	steps    = 1 << stepBits
	buckets  = 64 * steps / 2 // up to 2^38 ns, four and a half minutes
)

// histogram counts durations in a fixed room, so that measuring allocates
// nothing. One goroutine writes to it.
type histogram struct {
	counts [buckets]uint32
	total  int
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// quantile is the duration that the share q of all does not exceed; 0 of none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(int(math.Ceil(q*float64(h.total))), 1)
	for i, n := range h.counts {
		if rank -= int(n); rank <= 0 {
			return middleOf(i)
		}
	}
	return 0
}

// bucketOf: below 2·steps each nanosecond has its own bucket; above, the bucket
// is the exponent and the stepBits bits behind the leading one.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-stepBits-1, 0)
	return min(shift*steps+int(v>>shift), buckets-1)
}

// middleOf is the middle of a bucket.
func middleOf(bucket int) time.Duration {
	shift := max(bucket/steps-1, 0)
	low := uint64(bucket-shift*steps) << shift
	return time.Duration(low + (1<<shift)/2)
}
